package scenarios

import (
	"encoding/binary"
	"strconv"
	"strings"

	"lockstep/checker"
	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/sim"
)

// Judge wires the judges to a simulated world: it watches frames, events, faults
// and lives, and keeps what reports and assertions need.
type Judge struct {
	sim.Deaf
	setup *Setup
	truth *Truth
	now   func() int64

	Ledger     *checker.Ledger
	Invariants *checker.Invariants
	Recoveries map[string]*checker.Recovery // by group, from the first fault on
	Register   map[string][]checker.RegisterOp
	Events     []event.Event // all but the most frequent kinds
	Timeline   []TimelineEntry
	Roles      []RoleChange
	Marks      map[string]int
	Truncated  int64
	FirstFault int64 // 0 while none
	LastHeal   int64
	Lives      []sim.LifeChange
	LivesAt    []int64        // when each of Lives happened
	Acks       int            // SEND_OK emitted, whether or not a client heard it
	AcksBy     map[string]int // "group/epoch" → SEND_OK emitted
	AckLog     []AckSeen
	ackKeys    map[electionID]string

	serving map[string]ha.MasterEpoch // node → epoch it serves
	until   map[string]servedUntil    // node → epoch it served last
	// epochStarts are the barriers of each group, in order of time.
	epochStarts map[string][]ha.EpochStart
	setEpoch    map[string]ha.SetEpoch
	epoch       map[string]ha.MasterEpoch
	// electable is who could have been elected, at each election.
	electable map[electionID]ha.IDs
	winner    map[electionID]ha.BrokerID
	led       map[string]ha.MasterEpoch // newest epoch of a group whose master took its role
	sends     map[requestID]string      // request → key
	pulls     map[requestID]bool
	rotten    []string // brokers whose disk has just begun to rot
	alters    map[requestID]alterSeen
	holding   holding
}

// AckSeen is one SEND_OK at its emission.
type AckSeen struct {
	At    int64
	Group string
	Epoch ha.MasterEpoch
	Node  string
}

// servedUntil is the epoch a broker gave up, and when.
type servedUntil struct {
	epoch ha.MasterEpoch
	at    int64
}

// epochOf is the epoch a broker answers in. What it decided before it gave its
// authority up leaves in the same batch, at the same instant.
func (j *Judge) epochOf(node string) ha.MasterEpoch {
	if e := j.serving[node]; e != 0 {
		return e
	}
	if u := j.until[node]; u.at == j.now() {
		return u.epoch
	}
	return 0
}

type electionID struct {
	group string
	epoch ha.MasterEpoch
}

type requestID struct {
	node    string
	session node.SessionID
	opaque  int32
}

type alterSeen struct {
	at  int64
	op  int // index in Register of the group
	grp string
}

// maxEventsKept bounds the events of one run kept for assertions.
const maxEventsKept = 200_000

func newJudge(s *Setup, t *Truth, now func() int64) *Judge {
	j := &Judge{setup: s, truth: t, now: now, Ledger: checker.NewLedger(t), Invariants: checker.NewInvariants(s.Lease == 0 && !s.wildClocks()),
		Recoveries: map[string]*checker.Recovery{}, Register: map[string][]checker.RegisterOp{}, Marks: map[string]int{},
		serving: map[string]ha.MasterEpoch{}, until: map[string]servedUntil{}, epochStarts: map[string][]ha.EpochStart{}, setEpoch: map[string]ha.SetEpoch{}, epoch: map[string]ha.MasterEpoch{}, sends: map[requestID]string{}, pulls: map[requestID]bool{},
		alters: map[requestID]alterSeen{}, AcksBy: map[string]int{}, ackKeys: map[electionID]string{}, electable: map[electionID]ha.IDs{}, winner: map[electionID]ha.BrokerID{}, led: map[string]ha.MasterEpoch{}, holding: newHolding()}
	for g := range s.Groups {
		j.Ledger.SetPolicy(GroupName(g), checker.Policy{All: s.All, Count: s.Count, Min: s.Min, Class: s.Class, Reserved: s.surelyKept()})
	}
	return j
}

// wildClocks says that the drill lets clocks leave the drift bound.
func (s *Setup) wildClocks() bool { return s.Wild }

// OnEvent feeds the event judges.
func (j *Judge) OnEvent(e event.Event) {
	j.settleRot()
	if e.Group == "" && isBroker(e.Node) {
		e.Group = groupOf(e.Node)
	}
	if j.duplicate(e) {
		return
	}
	j.Invariants.See(e)
	for g := range j.setup.Groups {
		if r := j.Recoveries[GroupName(g)]; r != nil {
			r.See(e)
		}
	}
	switch e.Kind {
	case event.BrokerRegistered:
		j.truth.refresh(e.Group)
	case event.BarrierAppended:
		j.epochStarts[e.Group] = append(j.epochStarts[e.Group], ha.EpochStart{Epoch: e.Epoch, Start: e.Off})
	case event.Serving:
		j.serving[e.Node] = e.Epoch
		j.promoted(e)
	case event.Demoted:
		j.until[e.Node] = servedUntil{j.serving[e.Node], e.At}
		delete(j.serving, e.Node)
	case event.Truncated:
		j.Truncated += e.Count
		j.cut(e)
	case event.AlterProposed:
		j.offered(e)
	case event.Mark:
		j.Marks[e.Text]++
	case event.Elected, event.SetAltered:
		if e.Kind == event.Elected {
			j.electable[electionID{e.Group, e.Epoch}], j.winner[electionID{e.Group, e.Epoch}] = j.couldLead(e), e.Broker
		}
		j.committed(e)
	}
	if m := rareState(&e); m != "" {
		j.Marks[m]++
	}
	if len(j.Events) < maxEventsKept && e.Kind != event.LeaseInstalled && e.Kind != event.LeaseGranted {
		j.Events = append(j.Events, e)
	}
}

// rareState names the state that an event shows, of those that few runs reach and
// that a sweep must have seen; "" for all others.
func rareState(e *event.Event) string {
	switch e.Kind {
	case event.Elected:
		return rareElected[e.Text]
	case event.Truncated:
		if e.Count > 0 {
			return "log cut"
		}
	case event.AlterRefused:
		return "set change refused"
	case event.RebuildNeeded:
		return "rebuild needed"
	case event.ConfirmFrozen:
		return "confirm frozen"
	case event.LeaseExpired:
		return "lease expired"
	case event.ElectionFailed:
		return "nobody electable"
	}
	return ""
}

// rareElected names elections that are not the usual ones.
var rareElected = map[string]string{"retained": "elected from the retained", "all-back": "elected when all were back", "unclean": "elected uncleanly"}

// duplicate filters the committed changes that every controller reports: the
// first to apply one speaks for all.
func (j *Judge) duplicate(e event.Event) bool {
	if e.Kind != event.Elected && e.Kind != event.SetAltered {
		return false
	}
	if e.SetEpoch <= j.setEpoch[e.Group] && e.Epoch <= j.epoch[e.Group] {
		return true
	}
	j.setEpoch[e.Group], j.epoch[e.Group] = e.SetEpoch, max(e.Epoch, j.epoch[e.Group])
	return false
}

func (j *Judge) committed(e event.Event) {
	why := "set changed"
	op := checker.RegisterOp{Kind: checker.RegisterElect, Rebuilt: j.Invariants.Forgotten && e.Text == "rebuilt", Invoke: e.At, Return: e.At, Status: checker.Done,
		Result: checker.RegisterState{Master: e.Broker, Epoch: e.Epoch, SetEpoch: e.SetEpoch, Set: e.Set.String()}}
	if e.Kind == event.Elected {
		why = "elected " + e.Text
		j.Register[e.Group] = append(j.Register[e.Group], op)
	}
	rec := j.truth.refresh(e.Group)
	j.entered(e, rec)
	j.Roles = append(j.Roles, RoleChange{At: seconds(e.At), Group: e.Group, Master: int64(rec.Master), Epoch: int32(e.Epoch), SetEpoch: int32(e.SetEpoch),
		Set: e.Set.String(), Why: why})
}

// promoted checks the ledger against the log of a master that begins to serve.
func (j *Judge) promoted(e event.Event) {
	rec := j.truth.refresh(e.Group)
	id := j.truth.ID(e.Node)
	j.Ledger.Promoted(checker.Promotion{Group: e.Group, Master: id, Epoch: e.Epoch, Unclean: rec.Unclean,
		Electable: j.electable[j.decisive(electionID{e.Group, e.Epoch}, id)].With(id), At: e.At})
	j.led[e.Group] = e.Epoch
}

// decisive is the election that made a broker the master it is now: one that is elected,
// stops before it takes its role and is elected again was chosen the first time, by who
// could lead then.
func (j *Judge) decisive(now electionID, master ha.BrokerID) electionID {
	first := now
	for e := now.epoch - 1; e > j.led[now.group]; e-- {
		before := electionID{now.group, e}
		if j.winner[before] != master {
			break
		}
		first = before
	}
	return first
}

// couldLead are those who could have been elected at an election. When a group is
// back as a whole nobody is electable by the record, and whoever is there could lead:
// the best log must have been taken.
func (j *Judge) couldLead(e event.Event) ha.IDs {
	if e.Text == "all-back" {
		return j.truth.Present(e.Group)
	}
	return j.truth.Electable(e.Group)
}

// OnDeliver notes which request carries which message, and which asks for some.
func (j *Judge) OnDeliver(to string, s node.SessionID, f *wire.Frame) {
	if f.Link != wire.Remoting || f.Head.Response() {
		return
	}
	// Numbers of sessions begin anew with each life: what an earlier life did not answer
	// is forgotten.
	id := requestID{to, s, f.Head.Opaque}
	delete(j.pulls, id)
	delete(j.sends, id)
	if f.Head.Code == wire.ReqPull || f.Head.Code == wire.ReqLitePull {
		j.pulls[id] = true
	}
	if !isSend(f.Head.Code) {
		return
	}
	req, err := f.SendRequest()
	if err != nil {
		return
	}
	if key := keyOf(req.Properties); key != "" {
		j.sends[id] = key
		j.Ledger.Began(groupOf(to), key, j.now())
	}
}

func isSend(code int32) bool {
	return code == wire.ReqSendMessage || code == wire.ReqSendMessageV2 || code == wire.ReqSendBatch
}

// keyOf reads KEYS from a properties string.
func keyOf(props string) string {
	for len(props) > 0 {
		var pair string
		pair, props, _ = strings.Cut(props, "\x02")
		if v, ok := strings.CutPrefix(pair, "KEYS\x01"); ok {
			return v
		}
	}
	return ""
}

// OnSend checks every SEND_OK at the instant it leaves the broker.
func (j *Judge) OnSend(from string, s node.SessionID, f *wire.Frame) {
	if f.Link != wire.Remoting || !f.Head.Response() {
		return
	}
	j.settleRot()
	id := requestID{from, s, f.Head.Opaque}
	if j.pulls[id] {
		delete(j.pulls, id)
		j.served(from, f)
		return
	}
	key, ok := j.sends[id]
	if !ok {
		return
	}
	delete(j.sends, id)
	if f.Head.Code != wire.CodeSuccess {
		return
	}
	resp, err := answerOf(f)
	if err != nil {
		j.Ledger.Acknowledged(checker.Ack{Key: key, Group: groupOf(from), Log: -1, At: j.now()})
		return
	}
	j.Acks++
	group := groupOf(from)
	epoch := j.epochOf(from)
	j.AcksBy[j.ackedBy(group, epoch)]++
	j.Invariants.Acknowledged(from, group, epoch, j.now())
	j.AckLog = append(j.AckLog, AckSeen{At: j.now(), Group: group, Epoch: epoch, Node: from})
	log := logOf(&resp)
	j.Ledger.Acknowledged(checker.Ack{Key: key, Group: group, Master: j.truth.ID(from), Epoch: epoch, Log: log, QueueOffset: resp.QueueOffset, Claim: resp.Durability, At: j.now()})
	if r := j.Recoveries[group]; r != nil {
		r.Acknowledged(epoch, j.now())
	}
}

// served enters what a pull is answered with: records, one behind the other.
func (j *Judge) served(from string, f *wire.Frame) {
	if f.Head.Code != wire.CodeSuccess {
		return
	}
	for body := f.Body; len(body) >= 4; {
		size := int(binary.BigEndian.Uint32(body))
		if size <= 0 || size > len(body) {
			size = len(body) // no message: the ledger says so
		}
		j.Ledger.Served(groupOf(from), j.truth.ID(from), j.serving[from], body[:size], j.now())
		body = body[size:]
	}
}

// Read ends the last stage of a recovery: a message stored in a new epoch was
// consumed. The newest barrier at or below its place tells the epoch.
func (j *Judge) Read(group string, at int64, log ha.LogOffset) {
	r := j.Recoveries[group]
	starts := j.epochStarts[group]
	if r == nil || len(starts) == 0 {
		return
	}
	if last := starts[len(starts)-1]; log >= last.Start {
		r.Consumed(last.Epoch, at)
	}
}

// answerOf reads the answer to a send; its message id may not be a text yet.
func answerOf(f *wire.Frame) (wire.SendMessageResponse, error) {
	if f.SendOK != nil {
		return *f.SendOK, nil
	}
	return f.SendResponse()
}

// logOf is the commit log offset that an answer names, -1 without one.
func logOf(resp *wire.SendMessageResponse) ha.LogOffset {
	if resp.MsgID == "" && resp.Stored.IPLen > 0 { // not made into a text yet
		return ha.LogOffset(resp.Stored.Offset)
	}
	if m, err := wire.ParseOffsetMessageID(resp.MsgID); err == nil {
		return ha.LogOffset(m.Offset)
	}
	return -1
}

// ackedBy is the key of AcksBy.
func (j *Judge) ackedBy(group string, epoch ha.MasterEpoch) string {
	id := electionID{group, epoch}
	if j.ackKeys[id] == "" {
		j.ackKeys[id] = group + "/" + strconv.Itoa(int(epoch))
	}
	return j.ackKeys[id]
}

// groupOf is the group of a broker node, "" of none.
func groupOf(node string) string {
	if node == "" {
		return ""
	}
	return GroupName(int(node[0] - 'a'))
}

func isBroker(node string) bool { return len(node) == 2 && node[0] >= 'a' && node[0] <= 'b' }

// faultName is a fault as the timeline shows it: what an operator does by its name.
func faultName(f *sim.Fault) string {
	if f.Kind == sim.Action {
		return "operator: " + strings.TrimPrefix(f.Text, stagePrefix)
	}
	return string(f.Kind) + " " + f.Target()
}

// OnFault tells the ledger what a fault destroys and starts the stop-watches.
func (j *Judge) OnFault(f *sim.Fault, ended bool) {
	j.settleRot()
	at := j.now()
	what := faultName(f)
	if ended {
		what += " ends"
		j.LastHeal = at
	}
	if !strings.HasPrefix(f.Text, actPrefix) { // the fault that it casts follows at once
		j.Timeline = append(j.Timeline, TimelineEntry{At: seconds(at), What: what})
	}
	j.truth.fault(f, ended, at)
	if f.Kind == sim.Pause || f.Kind == sim.Suspend {
		for _, n := range f.Nodes {
			j.Invariants.Frozen(n, !ended)
		}
	}
	if ended {
		for _, n := range f.Nodes {
			if f.Kind == sim.DiskLies {
				j.truth.lying[n]--
			}
			if f.Kind == sim.DiskSyncDrop && isBroker(n) {
				j.Ledger.SyncDropped(groupOf(n), j.truth.ID(n)) // of what came to it since the fault began
			}
		}
		return
	}
	j.LastHeal = max(j.LastHeal, at)
	if j.FirstFault == 0 && f.Kind != sim.Action {
		j.firstFault(at)
	}
	for _, n := range f.Nodes {
		if isBroker(n) {
			j.damage(f, n)
		}
	}
}

func (j *Judge) firstFault(at int64) {
	j.FirstFault = at
	for g := range j.setup.Groups {
		epoch, _ := j.truth.Newest(GroupName(g))
		j.Recoveries[GroupName(g)] = checker.NewRecovery(GroupName(g), at, epoch, j.setup.Min)
	}
}

func (j *Judge) damage(f *sim.Fault, n string) {
	id := j.truth.ID(n)
	switch f.Kind {
	case sim.PowerLoss:
		j.truth.keep(n)
		j.Ledger.PowerLost(groupOf(n), id)
		if j.truth.liars[n] {
			j.truth.liars[n] = j.truth.lying[n] > 0 // what is on the platter is all there is now
			j.Ledger.LiarLost(groupOf(n), id)
		}
	case sim.WipeDisk:
		j.truth.keep(n)
		j.Ledger.StoreLost(groupOf(n), id, string(f.Kind))
		j.truth.forget(n)
	case sim.DiskLies:
		j.truth.liars[n] = true
		j.truth.lying[n]++
	case sim.DiskRot:
		j.rotten = append(j.rotten, n)
	case sim.DiskSyncDrop:
		j.Ledger.SyncDropped(groupOf(n), id)
	}
}

// settleRot lets the ledger look at disks that a fault has damaged: a fault is told
// before it happens, and nothing else happens before the next thing that is told.
func (j *Judge) settleRot() {
	for _, n := range j.rotten {
		j.Ledger.Rotted(groupOf(n), j.truth.ID(n))
	}
	j.rotten = j.rotten[:0]
}

// OnLife keeps track of who runs.
func (j *Judge) OnLife(l sim.LifeChange) {
	j.settleRot()
	j.Lives, j.LivesAt = append(j.Lives, l), append(j.LivesAt, j.now())
	j.truth.life(l, j.now())
	if l.Phase == sim.Down {
		j.Invariants.NodeDown(l.Node)
		delete(j.serving, l.Node)
	}
}

func seconds(nanos int64) float64 { return float64(nanos/1e6) / 1e3 }

// Count is how many kept events match; zero fields match anything.
func (j *Judge) Count(kind event.Kind, match func(e event.Event) bool) int {
	n := 0
	for i := range j.Events {
		if j.Events[i].Kind == kind && (match == nil || match(j.Events[i])) {
			n++
		}
	}
	return n
}

// First returns the first kept event of the kind that matches.
func (j *Judge) First(kind event.Kind, match func(e event.Event) bool) (event.Event, bool) {
	for i := range j.Events {
		if j.Events[i].Kind == kind && (match == nil || match(j.Events[i])) {
			return j.Events[i], true
		}
	}
	return event.Event{}, false
}
