package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The protocol's error codes. Definite ones promise that the request did nothing
// and never will; of all others the client must assume that it may have happened.
const (
	Timeout                = 0  // indefinite: no answer in time
	NodeNotFound           = 1  // definite: no such destination
	NotSupported           = 10 // definite: the node does not know the request
	TemporarilyUnavailable = 11 // definite: not now, and nothing was done
	MalformedRequest       = 12 // definite: the request makes no sense
	Crash                  = 13 // indefinite: anything may have happened
	Abort                  = 14 // definite: surely nothing happened
	KeyDoesNotExist        = 20 // definite
	KeyAlreadyExists       = 21 // definite
	PreconditionFailed     = 22 // definite: a compare-and-set found another value
	TxnConflict            = 30 // definite
)

// codes says what is known of each code.
var codes = map[int]struct {
	name     string
	definite bool
}{
	Timeout: {"Timeout", false}, NodeNotFound: {"NodeNotFound", true}, NotSupported: {"NotSupported", true},
	TemporarilyUnavailable: {"TemporarilyUnavailable", true}, MalformedRequest: {"MalformedRequest", true},
	Crash: {"Crash", false}, Abort: {"Abort", true}, KeyDoesNotExist: {"KeyDoesNotExist", true},
	KeyAlreadyExists: {"KeyAlreadyExists", true}, PreconditionFailed: {"PreconditionFailed", true}, TxnConflict: {"TxnConflict", true},
}

// ErrorCodeText is the name of a code.
func ErrorCodeText(code int) string {
	if c, ok := codes[code]; ok {
		return c.name
	}
	return fmt.Sprintf("ErrorCode<%d>", code)
}

// Definite reports whether an error of the code promises that nothing happened.
// Codes of applications (1000 and above) never do.
func Definite(code int) bool { return codes[code].definite }

// RPCError is an answer of type "error".
type RPCError struct {
	Code int
	Text string
}

// NewRPCError returns an error for a handler to return, or to reply with.
func NewRPCError(code int, text string) *RPCError { return &RPCError{code, text} }

// Error implements error.
func (e *RPCError) Error() string {
	return fmt.Sprintf("RPCError(%s, %q)", ErrorCodeText(e.Code), e.Text)
}

// MarshalJSON is the body of the answer.
func (e *RPCError) MarshalJSON() ([]byte, error) {
	return json.Marshal(errorBody{Type: "error", Code: e.Code, Text: e.Text})
}

type errorBody struct {
	Type string `json:"type"`
	Code int    `json:"code"`
	Text string `json:"text"`
}

// ErrorCode is the code of err, or -1 when it is no answer of a node.
func ErrorCode(err error) int {
	var e *RPCError
	if errors.As(err, &e) {
		return e.Code
	}
	return -1
}
