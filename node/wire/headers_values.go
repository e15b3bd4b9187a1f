package wire

import (
	"strconv"
	"strings"

	"lockstep/internal/ha"
)

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

// errIDs and errMembers say what the texts of lists must look like.
const (
	errIDs     = textError("broker ids joined with commas, at most 256")
	errMembers = textError("id@store/boot joined with commas, at most 256")
)

// textError is a fixed error text.
type textError string

// Error implements error.
func (e textError) Error() string { return string(e) }

func idsText(ids ha.IDs) string {
	out := make([]byte, 0, 4*len(ids))
	for i, id := range ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(id), 10)
	}
	return string(out)
}

// parseIDs reads a list of ids into a sorted set.
func parseIDs(s string) (ha.IDs, error) {
	if strings.Count(s, ",") >= MaxMembers {
		return nil, errIDs
	}
	var ids []ha.BrokerID
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, errIDs
		}
		ids = append(ids, ha.BrokerID(n))
	}
	return ha.NewIDs(ids...), nil
}

func membersText(m Members) string {
	out := make([]byte, 0, 48*len(m))
	for i, x := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(x.Broker), 10)
		out = append(out, '@')
		out = append(out, x.Store...)
		out = append(out, '/')
		out = strconv.AppendUint(out, uint64(x.Boot), 10)
	}
	return string(out)
}

// parseMembers reads a list of incarnations, keeping its order.
func parseMembers(s string) (Members, error) {
	if strings.Count(s, ",") >= MaxMembers {
		return nil, errMembers
	}
	var m Members
	for part := range strings.SplitSeq(s, ",") {
		id, rest, ok := strings.Cut(part, "@")
		store, boot, ok2 := strings.Cut(rest, "/")
		n, err := strconv.ParseInt(id, 10, 64)
		b, err2 := strconv.ParseUint(boot, 10, 32)
		if !ok || !ok2 || err != nil || err2 != nil {
			return nil, errMembers
		}
		m = append(m, ha.Incarnation{Broker: ha.BrokerID(n), Store: ha.StoreID(store), Boot: ha.Boot(b)})
	}
	return m, nil
}
