// Package ha is the vocabulary of high availability: named types for offsets,
// epochs, identities and sets, shared by storage, nodes, wire and judges. It
// holds values and pure arithmetic only, so that the independent judges may
// use it without knowing any node code.
package ha

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LogOffset is a position in the commit log in bytes from the log's origin.
// An "end" is exclusive: the offset of the next byte to be written.
type LogOffset int64

// MasterEpoch numbers the terms of a broker group's master. Real epochs are
// positive; 0 means "none yet". (Authority: MasterEpoch.)
type MasterEpoch int32

// SetEpoch is the version of a SyncStateSet. Real set epochs are positive.
type SetEpoch int32

// BrokerID is the stable id a controller assigned: 1, 2, … It is not the role
// id of name server registrations, where 0 means master.
type BrokerID int64

// NoBroker is the absent broker id.
const NoBroker BrokerID = -1

// StoreID names one life of one store: 32 lower-case hex digits, drawn when the
// store is created and never reused (rule P1). "" means unknown (a Java peer).
type StoreID string

// Boot counts the starts of one store; it is fsynced before registration.
type Boot uint32

// Incarnation says who a member is: never an id alone (rules P1, P2).
type Incarnation struct {
	Broker BrokerID
	Store  StoreID
	Boot   Boot
}

// String prints id@store/boot with a short store id.
func (i Incarnation) String() string {
	s := string(i.Store)
	if len(s) > 6 {
		s = s[:6]
	}
	return fmt.Sprintf("%d@%s/%d", i.Broker, s, i.Boot)
}

// Authority is the exact pair that may write: who, and in which epoch.
type Authority struct {
	Broker BrokerID
	Epoch  MasterEpoch
}

// Valid reports whether the authority names a broker and a positive epoch.
func (a Authority) Valid() bool { return a.Broker >= 0 && a.Epoch > 0 }

// AckClass says what an acknowledged offset promises.
type AckClass uint8

// The classes, weakest first.
const (
	ClassUnknown  AckClass = iota
	ClassReceived          // written to the operating system, not synced
	ClassDurable           // survives power loss
)

// String names the class as configuration and events spell it.
func (c AckClass) String() string { return [...]string{"unknown", "received", "durable"}[c%3] }

// Claim is a replica's answer to "do you still hold all you acknowledged?".
type Claim uint8

// Claims: unknown is a peer that cannot say (Java).
const (
	ClaimUnknown Claim = iota
	ClaimHolds
	ClaimBroken
)

// String names the claim.
func (c Claim) String() string { return [...]string{"unknown", "holds", "broken"}[c%3] }

// IDs is a sorted set of broker ids without duplicates.
type IDs []BrokerID

// NewIDs sorts and de-duplicates ids.
func NewIDs(ids ...BrokerID) IDs {
	s := slices.Clone(IDs(ids))
	slices.Sort(s)
	return slices.Compact(s)
}

// Has reports membership.
func (s IDs) Has(id BrokerID) bool { _, ok := slices.BinarySearch(s, id); return ok }

// With returns the set including id.
func (s IDs) With(id BrokerID) IDs { return NewIDs(append(slices.Clone(s), id)...) }

// Without returns the set excluding id.
func (s IDs) Without(id BrokerID) IDs {
	out := make(IDs, 0, len(s))
	for _, x := range s {
		if x != id {
			out = append(out, x)
		}
	}
	return out
}

// Union returns the members of either set.
func (s IDs) Union(t IDs) IDs { return NewIDs(append(slices.Clone(s), t...)...) }

// Equal reports equal membership.
func (s IDs) Equal(t IDs) bool { return slices.Equal(s, t) }

// String prints {1 2 3}.
func (s IDs) String() string {
	parts := make([]string, len(s))
	for i, id := range s {
		parts[i] = strconv.FormatInt(int64(id), 10)
	}
	return "{" + strings.Join(parts, " ") + "}"
}
