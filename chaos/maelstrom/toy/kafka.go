package toy

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// hot is the key that gets half of the first operations: faults that need one
// particular key take it.
const hot = "9"

// maxFired is how often a fault of polls strikes.
const maxFired = 5

// maxForeseen is how often a message is shown early, until one was surely not
// under way.
const maxForeseen = 100

// certain is how long after the end of the poll a message that was shown early must
// come, so that it cannot have been under way by then.
const certain = 20 * time.Millisecond

// pair is one message of a log.
type pair struct{ offset, msg int64 }

// kafka is the logs and committed offsets.
type kafka struct {
	fault     string
	step      int64 // between two offsets
	logs      map[string][]pair
	committed map[string]int64
	reached   map[string]int64            // next offset by client and key
	sent      map[string]map[string]int64 // offset of each client's last send, by key
	shown     bool                        // nonmonotonic-send: the hot key may be polled
	fired     int
	sends     int
	recent    []string // keys of the last sends, newest last
	early     *early
	freed     []string
}

// early is a message that was shown to one client before anybody sent it. The
// client is held until another one has sent it.
type early struct {
	client, key string
	pair        pair
	held        time.Time // when the client's next request came: its poll had ended
	done        bool
}

func newKafka(fault string) *kafka {
	k := &kafka{fault: fault, step: 1, logs: map[string][]pair{}, committed: map[string]int64{}, reached: map[string]int64{}, sent: map[string]map[string]int64{}}
	switch fault {
	case "committed-unknown", "nonmonotonic-send":
		k.step = 10
	}
	return k
}

func (k *kafka) apply(r request) body {
	switch r.body["type"] {
	case "send":
		key, _ := r.body["key"].(string)
		return k.send(r.client, key, number(r.body["msg"]))
	case "poll":
		wanted, _ := r.body["offsets"].(body)
		return k.poll(r.client, wanted)
	case "commit_offsets":
		offsets, _ := r.body["offsets"].(body)
		for key, offset := range offsets {
			k.committed[key] = max(k.committed[key], number(offset))
		}
		return body{"type": "commit_offsets_ok"}
	}
	keys, _ := r.body["keys"].([]any)
	out := body{}
	for _, v := range keys {
		key, _ := v.(string)
		if c, ok := k.committed[key]; ok && k.fault != "lost-commit" {
			out[key] = c + map[string]int64{"committed-above": 1000, "committed-unknown": -1}[k.fault]
		}
	}
	return body{"type": "list_committed_offsets_ok", "offsets": out}
}

// next is the offset of the next message of a log.
func (k *kafka) next(key string) int64 {
	if e := k.early; e != nil && !e.done && e.key == key && !slices.Contains(k.logs[key], e.pair) {
		return max(e.pair.offset, k.end(key)) + k.step
	}
	return k.end(key)
}

func (k *kafka) end(key string) int64 {
	log := k.logs[key]
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].offset + k.step
}

func (k *kafka) send(client, key string, msg int64) body {
	if k.fault == "unknown-message" && len(k.logs[key]) == 0 {
		k.logs[key] = []pair{{0, 777}}
	}
	offset := k.next(key)
	k.sends++
	k.recent = append(k.recent, key)
	k.recent = k.recent[max(0, len(k.recent)-recentSends):]
	if e := k.early; e != nil && !e.done && e.key == key && e.pair.msg == msg {
		offset = e.pair.offset
		k.arrived(client)
	}
	last, had := k.sent[client][key]
	if k.fault == "nonmonotonic-send" && key == hot && had && last > 0 && !k.shown {
		k.shown, offset = true, last-k.step/2
	}
	if k.sent[client] == nil {
		k.sent[client] = map[string]int64{}
	}
	k.sent[client][key] = offset
	if k.fault == "lost-write" && len(k.logs[key]) == 0 {
		// It takes a place that nobody will find filled.
		k.logs[key] = append(k.logs[key], pair{offset, -1})
		return body{"type": "send_ok", "offset": offset}
	}
	k.logs[key] = append(k.logs[key], pair{offset, msg})
	if k.fault == "duplicate" && msg == 3 {
		k.logs[key] = append(k.logs[key], pair{offset + k.step, msg})
	}
	slices.SortFunc(k.logs[key], func(a, b pair) int { return int(a.offset - b.offset) })
	if k.fault == "G1a" && msg == 3 {
		return failure(14, "did not happen")
	}
	return body{"type": "send_ok", "offset": offset}
}

func (k *kafka) poll(client string, wanted body) body {
	msgs := body{}
	for key, from := range wanted {
		ps := k.answer(client, key, number(from))
		if len(ps) == 0 {
			continue
		}
		list := make([][2]int64, 0, len(ps))
		for _, p := range ps {
			list = append(list, [2]int64{p.offset, p.msg})
		}
		k.reached[client+" "+key] = ps[len(ps)-1].offset + 1
		msgs[key] = list
	}
	return body{"type": "poll_ok", "msgs": msgs}
}

// answer is what a poll shows of a key from an offset on.
func (k *kafka) answer(client, key string, from int64) []pair {
	var ps []pair
	for _, p := range k.logs[key] {
		if e := k.early; e != nil && !e.done && e.key == key && p.offset > e.pair.offset {
			break // nothing above a place that is still empty
		}
		if p.offset >= from && p.msg >= 0 {
			ps = append(ps, p)
		}
	}
	switch {
	case k.fault == "unseen" && key == hot:
		ps = slices.DeleteFunc(ps, func(p pair) bool { return k.rank(key, p) >= 4 })
	case k.fault == "nonmonotonic-send" && key == hot && !k.shown && len(k.logs[key]) < 16:
		return nil
	}
	if len(ps) > 0 && k.foresees(key) {
		k.fired++
		p := pair{k.end(key), int64(len(k.logs[key]) + 1)}
		if !slices.ContainsFunc(k.logs[key], func(q pair) bool { return q.msg == p.msg }) {
			k.early = &early{client: client, key: key, pair: p}
			return append(ps, p)
		}
	}
	return k.wrong(client, key, from, ps)
}

// recentSends are looked at to see which key will surely be sent to again.
const recentSends = 6

// foretold is during how many sends messages are shown early: later the run might
// end before they are sent.
const foretold = 150

// foresees reports whether a poll of the key is to show the message after the last.
func (k *kafka) foresees(key string) bool {
	if k.fault != "G1c-process" && k.fault != "G1c-realtime" || k.fired == maxForeseen || k.early != nil && !k.early.done {
		return false
	}
	of := 0
	for _, r := range k.recent {
		if r == key {
			of++
		}
	}
	return of >= recentSends/2 && k.sends < foretold
}

func (k *kafka) rank(key string, p pair) int { return slices.Index(k.logs[key], p) }

// wrong applies the faults of polls, a few times.
func (k *kafka) wrong(client, key string, from int64, ps []pair) []pair {
	reached, again := k.reached[client+" "+key]
	again = again && reached == from // this client goes on where it was
	n := len(ps)
	if k.fired == maxFired || n == 0 {
		return ps
	}
	before := func() []pair { // with the one below
		at := k.rank(key, ps[0])
		return append([]pair{k.logs[key][at-1]}, ps...)
	}
	switch {
	case k.fault == "int-poll-skip" && n > 2:
		ps = slices.Delete(ps, 1, 2)
	case k.fault == "int-nonmonotonic-poll":
		ps = append(ps, ps[n-1])
	case k.fault == "poll-skip" && again && n > 1, k.fault == "start-skip" && !again && n > 1:
		ps = ps[1:]
	case k.fault == "nonmonotonic-poll" && again && k.rank(key, ps[0]) > 0, k.fault == "start-before" && !again && k.rank(key, ps[0]) > 0:
		ps = before()
	default:
		return ps
	}
	k.fired++
	return ps
}

// What the log of the node says about a message that was shown early: that the
// reader sent it itself, so that the cycle needs no real time, or that another
// began to send it only after the poll had ended.
const (
	OwnSend   = "toy: the reader sent it itself"
	LaterSend = "toy: sent after it was read"
)

// arrived is called when a message that was shown early has been sent.
func (k *kafka) arrived(client string) {
	e := k.early
	e.done = true
	k.freed = append(k.freed, e.client)
	if client == e.client {
		fmt.Fprintln(os.Stderr, OwnSend)
	}
	if later := !e.held.IsZero() && time.Since(e.held) > certain; later || k.fault == "G1c-process" {
		k.fired = maxForeseen // that is enough
		fmt.Fprintln(os.Stderr, LaterSend)
	}
}

// holds reports whether a request waits: of the client that read early, all but
// the commit that ends its poll and the send itself.
func (k *kafka) holds(r request) bool {
	e := k.early
	if e == nil || e.done || k.fault != "G1c-realtime" || r.client != e.client || r.body["type"] == "commit_offsets" {
		return false
	}
	if e.held.IsZero() {
		e.held = time.Now()
	}
	key, _ := r.body["key"].(string)
	return key != e.key || number(r.body["msg"]) != e.pair.msg
}

// release are the clients that need not wait any longer.
func (k *kafka) release() []string {
	freed := k.freed
	k.freed = nil
	return freed
}
