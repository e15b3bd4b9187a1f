package controller

import (
	"cmp"
	"slices"

	"lockstep/node"
	"lockstep/node/wire"
)

// Register is a named value beside the record of the groups, kept by the same log:
// what tools and tests need that want one agreed value. Nothing of the groups
// depends on it.
type Register struct{ Name, Value string }

// Bounds of registers; all of them fit a snapshot beside everything else.
const (
	// maxRegisters bounds their number.
	maxRegisters = 8192
	// maxRegister bounds a name and a value, bytes.
	maxRegister = 256
)

func (s *State) register(name string) (int, bool) {
	return slices.BinarySearchFunc(s.Registers, name, func(r Register, name string) int { return cmp.Compare(r.Name, name) })
}

// writeRegister sets a register.
type writeRegister struct{ name, value string }

func (c *writeRegister) kind() commandKind { return kindWrite }

func (c *writeRegister) put(w *writer) {
	w.text(c.name)
	w.text(c.value)
}

func (c *writeRegister) apply(s *State) outcome {
	i, found := s.register(c.name)
	switch {
	case found:
		s.Registers[i].Value = c.value
	case len(s.Registers) >= maxRegisters:
		return refused(wire.CodeRegistersFull, "there are %d registers already", maxRegisters)
	default:
		s.Registers = slices.Insert(s.Registers, i, Register{c.name, c.value})
	}
	return outcome{}
}

// swapRegister sets a register that has a certain value.
type swapRegister struct{ name, from, to string }

func (c *swapRegister) kind() commandKind { return kindSwap }

func (c *swapRegister) put(w *writer) {
	w.text(c.name)
	w.text(c.from)
	w.text(c.to)
}

func (c *swapRegister) apply(s *State) outcome {
	i, found := s.register(c.name)
	switch {
	case !found:
		return refused(wire.CodeRegisterNotExist, "register %q was never written", c.name)
	case s.Registers[i].Value != c.from:
		return refused(wire.CodeRegisterDiffers, "register %q has the value %q", c.name, s.Registers[i].Value)
	}
	s.Registers[i].Value = c.to
	return outcome{}
}

// registersRequest serves the codes of registers: writes through the log, reads
// behind a barrier.
func (c *Controller) registersRequest(now node.Now, id node.SessionID, f *wire.Frame) {
	var h wire.RegisterRequest
	if !c.decode(id, f, &h) {
		return
	}
	if h.Name == "" || max(len(h.Name), len(h.Value), len(h.From)) > maxRegister {
		c.refuse(id, f, wire.CodeInvalidRequest, "request %d: the name is empty, or a text is longer than %d bytes", f.Head.Code, maxRegister)
		return
	}
	r := &read{session: id, frame: f, kind: f.Head.Code, register: h.Name}
	switch f.Head.Code {
	case wire.ReqReadRegister:
		c.queueRead(now, r)
	case wire.ReqWriteRegister:
		c.propose(now, &writeRegister{h.Name, h.Value}, r)
	default:
		c.propose(now, &swapRegister{h.Name, h.From, h.Value}, r)
	}
}

func (c *Controller) answerRegister(r *read) {
	i, found := c.state.register(r.register)
	if !found {
		c.reply(r.session, r.frame, answer{code: wire.CodeRegisterNotExist, remark: "the register was never written"})
		return
	}
	c.reply(r.session, r.frame, answer{ext: wire.EncodeExt(wire.RegisterResponse{Value: c.state.Registers[i].Value})})
}
