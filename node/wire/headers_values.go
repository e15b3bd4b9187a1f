package wire

import "lockstep/internal/ha"

// Readiness is a broker's answer to "may this store be promoted?". Unknown is a
// peer that cannot say (Java); it counts only where an option says so.
type Readiness uint8

// The answers; text on the wire is yes, no, or absent.
const (
	ReadyUnknown Readiness = iota
	ReadyYes
	ReadyNo
)

// String is the text on the wire.
func (r Readiness) String() string { return [...]string{"unknown", "yes", "no"}[r%3] }

// Tristate is a Java Boolean that may be null: absent means something else than
// false.
type Tristate uint8

// The values; text on the wire is absent, true or false.
const (
	Absent Tristate = iota
	True
	False
)

// String is the text on the wire.
func (t Tristate) String() string { return [...]string{"absent", "true", "false"}[t%3] }

// TristateOf wraps a present boolean.
func TristateOf(b bool) Tristate {
	if b {
		return True
	}
	return False
}

// Members is a list of incarnations; text on the wire "id@store/boot" joined with
// commas.
type Members []ha.Incarnation

// Find returns the incarnation of broker id.
func (m Members) Find(id ha.BrokerID) (ha.Incarnation, bool) {
	for _, x := range m {
		if x.Broker == id {
			return x, true
		}
	}
	return ha.Incarnation{}, false
}

// MaxMembers bounds lists of members and of broker ids in headers and bodies.
const MaxMembers = 256
