package maelstrom

import "time"

// Fate is what became of a message.
type Fate uint8

// Fates of a message.
const (
	InFlight  Fate = iota // not taken by the end of the run
	Delivered             // written to the receiver
	LostInCut             // taken while its direction was cut
	LostDown              // the receiver was dead or not yet initialised
)

// Record is one message in the journal.
type Record struct {
	Src, Dest string
	Type      string
	Sent, At  time.Duration
	Fate      Fate
	Copy      bool // the second of a duplicated message
	number    int64
}

// maxRecords is how many messages the journal keeps: the last ones.
const maxRecords = 1 << 18

// journal keeps the newest messages for the diagram. The router's lock covers it.
type journal struct {
	next    int64
	records []Record
}

func (j *journal) add(m *Message, twin bool) int64 {
	r := Record{Src: m.Src, Dest: m.Dest, Sent: m.sent, number: j.next, Copy: twin}
	if h, err := m.head(); err == nil {
		r.Type = h.Type
	}
	if len(j.records) < maxRecords {
		j.records = append(j.records, r)
	} else {
		j.records[j.next%maxRecords] = r
	}
	j.next++
	return r.number
}

func (j *journal) end(number int64, at time.Duration, fate Fate) {
	if number < 0 {
		return
	}
	if r := &j.records[number%maxRecords]; r.number == number {
		r.At, r.Fate = at, fate
	}
}

// all returns the records kept, oldest first.
func (j *journal) all() []Record {
	if len(j.records) < maxRecords {
		return j.records
	}
	at := j.next % maxRecords
	return append(append([]Record{}, j.records[at:]...), j.records[:at]...)
}
