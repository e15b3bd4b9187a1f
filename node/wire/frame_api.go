package wire

import (
	"slices"

	"lockstep/internal/invariant"
)

// NewRequest builds a remoting request. header is a typed header, a pointer to
// one, or nil; the hot headers stay typed.
func NewRequest(code, opaque int32, header any, body []byte) Frame {
	f := Frame{Head: Head{Code: code, Language: LanguageGo, Version: Version, Opaque: opaque}, Body: body}
	f.SetHeader(header)
	return f
}

// NewResponse builds the answer to req. Never send one to a one-way request.
// The answer is sealed when the request was.
func NewResponse(req *Head, code int32, header any, body []byte) Frame {
	f := Frame{Head: Head{
		Code: code, Language: LanguageGo, Version: Version, Opaque: req.Opaque,
		Flag: FlagResponse, Sealed: req.Sealed,
	}, Body: body}
	f.SetHeader(header)
	return f
}

// NewFailure builds an answer without header fields: a code and what was wrong.
func NewFailure(req *Head, code int32, remark string) Frame {
	f := NewResponse(req, code, nil, nil)
	f.Head.Remark = remark
	return f
}

// SetHeader makes header the frame's header: the hot types as they are (a
// pointer is kept, not copied), all others as Ext.
func (f *Frame) SetHeader(header any) {
	f.Head.Ext, f.Send, f.SendOK, f.Pull, f.PullOK = nil, nil, nil, nil, nil
	switch h := header.(type) {
	case nil:
	case *SendMessageRequest:
		f.Send = h
	case SendMessageRequest:
		f.Send = &h
	case *SendMessageResponse:
		f.SendOK = h
	case SendMessageResponse:
		f.SendOK = &h
	case *PullRequest:
		f.Pull = h
	case PullRequest:
		f.Pull = &h
	case *PullResponse:
		f.PullOK = h
	case PullResponse:
		f.PullOK = &h
	default:
		f.Head.Ext = EncodeExt(header)
	}
}

// ExtFields returns the header fields whichever form the frame has.
func (f *Frame) ExtFields() Ext {
	switch {
	case f.Send != nil:
		return encodeExt(f.Send, letterCode(f.Head.Code))
	case f.SendOK != nil:
		return encodeExt(f.SendOK.withText(), false)
	case f.Pull != nil:
		return EncodeExt(f.Pull)
	case f.PullOK != nil:
		return EncodeExt(f.PullOK)
	}
	return f.Head.Ext
}

// Header reads the header into a pointer to its type; the error is a *FieldError.
func (f *Frame) Header(header any) error {
	return decodeExt(f.ExtFields(), header, letterCode(f.Head.Code) && !f.Head.Response())
}

// letterCode reports whether requests of the code spell the send header with
// letters.
func letterCode(code int32) bool {
	return code == ReqSendMessageV2 || code == ReqSendBatch || code == ReqSendReplyV2
}

// SendRequest reads the header of codes 10, 310, 320, 324 and 325 from either form.
func (f *Frame) SendRequest() (SendMessageRequest, error) {
	if f.Send != nil {
		return *f.Send, nil
	}
	var h SendMessageRequest
	err := decodeExt(f.Head.Ext, &h, letterCode(f.Head.Code))
	return h, err
}

// SendResponse reads the answer to a stored send from either form.
func (f *Frame) SendResponse() (SendMessageResponse, error) {
	if f.SendOK != nil {
		return f.SendOK.withText(), nil
	}
	var h SendMessageResponse
	err := DecodeExt(f.ExtFields(), &h)
	return h, err
}

// withText fills MsgID from Stored, so that both forms read alike.
func (r *SendMessageResponse) withText() SendMessageResponse {
	h := *r
	if h.MsgID == "" && h.Stored.IPLen > 0 {
		h.MsgID = h.Stored.String()
	}
	h.Stored = OffsetMessageID{}
	return h
}

// PullRequest reads the header of codes 11 and 361 from either form.
func (f *Frame) PullRequest() (PullRequest, error) {
	if f.Pull != nil {
		return *f.Pull, nil
	}
	var h PullRequest
	err := DecodeExt(f.ExtFields(), &h)
	return h, err
}

// PullResponse reads the answer to a pull from either form.
func (f *Frame) PullResponse() (PullResponse, error) {
	if f.PullOK != nil {
		return *f.PullOK, nil
	}
	var h PullResponse
	err := DecodeExt(f.ExtFields(), &h)
	return h, err
}

// Clone copies the frame and everything it points to except texts, for hosts that
// hand frames over without encoding them.
func (f *Frame) Clone() Frame {
	c := *f
	c.Body = slices.Clone(f.Body)
	c.Head.Ext = slices.Clone(f.Head.Ext)
	c.Send, c.SendOK = cloneOf(f.Send), cloneOf(f.SendOK)
	c.Pull, c.PullOK = cloneOf(f.Pull), cloneOf(f.PullOK)
	if c.Replica = cloneOf(f.Replica); c.Replica != nil {
		c.Replica.Epochs = slices.Clone(f.Replica.Epochs)
	}
	c.Prepared = nil
	return c
}

func cloneOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// Seal asks for an end-to-end checksum on the wire: Lockstep's own controller
// requests, client sends and replies carry it, so that a byte damaged on the way
// closes the session instead of being believed. Java peers ignore it.
func Seal(f *Frame) {
	invariant.That(f.Link == Remoting, "only remoting frames are sealed, not %v", f.Link)
	f.Head.Sealed = true
}
