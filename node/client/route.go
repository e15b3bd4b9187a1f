package client

import (
	"fmt"
	"slices"

	"lockstep/internal/event"
	"lockstep/internal/ha"
	"lockstep/internal/prng"
	"lockstep/node"
	"lockstep/node/wire"
)

// clusterTable is the key of the route that holds the cluster table (code 106);
// no topic has an empty name.
const clusterTable = ""

// templateTopic carries the route of topics that brokers create at the first send
// (wire contracts 4.10); newTopicQueues is how many queues such a topic gets.
const (
	templateTopic  = "TBW102"
	newTopicQueues = 4
)

// masterRole is the role id of a group's master in routes.
const masterRole int64 = 0

// route is what the name servers say of one topic, or of the clusters.
type route struct {
	topic string
	data  *wire.RouteData
	info  *wire.ClusterInfo
	write []queueRef // writable queues of groups that have a master
	next  int        // of write, for the next send

	wanted    bool      // an answer is wanted as soon as the pause allows
	notBefore node.Time // end of the pause
	pollAt    node.Time // refresh without a reason
	used      node.Time // last time an operation looked at it
	learned   node.Time // last answer that was a route
	ask       *question
	server    int // name server to ask next
	// Of the round under way, in which each name server is asked once at most: who was
	// asked, and how many of them know no such topic.
	asked     []bool
	absent    int
	fruitless int       // rounds and refreshes in a row that brought nothing new
	absentAt  node.Time // when all name servers last agreed that there is no such topic
	code      int32     // of the last answer that was no route
	remark    string
}

// question is the one outstanding request of a route.
type question struct {
	conn  *conn
	sent  bool
	until node.Time
	// opaque of the request once it was sent.
	opaque int32
}

// queueRef is one writable queue.
type queueRef struct {
	broker, addr string
	id           int32
}

func (r *route) name() string {
	if r.topic == clusterTable {
		return "the cluster table"
	}
	return r.topic
}

// routeTable holds the routes in use.
type routeTable struct {
	byTopic map[string]*route
	list    []*route // in order of first use
	turn    []*route // those of the Settle under way
	seed    uint64
}

func (t *routeTable) init(seed uint64) { t.byTopic, t.seed = map[string]*route{}, seed }

// routeOf returns the route entry of a topic, making one when there is room; nil
// when there is none.
func (c *Client) routeOf(topic string) *route {
	r := c.routes.byTopic[topic]
	if r == nil {
		if len(c.routes.list) >= c.opt.MaxTopics && !c.forgetRoute() {
			return nil
		}
		start := prng.Hash(c.routes.seed, prng.HashString(topic))
		r = &route{topic: topic, wanted: true, pollAt: node.Never, code: NoCode, next: int(start >> 33),
			server: int(start % uint64(len(c.opt.NamesrvAddrs))), asked: make([]bool, len(c.opt.NamesrvAddrs))}
		c.routes.byTopic[topic] = r
		c.routes.list = append(c.routes.list, r)
	}
	r.used = c.now.Mono
	return r
}

// forgetRoute drops the route that was used least recently and that nobody works
// with; false when all are in use.
func (c *Client) forgetRoute() bool {
	busy := map[string]bool{}
	for _, op := range c.order {
		busy[op.routeTopic()] = busy[op.routeTopic()] || op.state != opDone
	}
	for _, s := range c.subs {
		busy[s.arg.Topic] = true
	}
	var old *route
	for _, r := range c.routes.list {
		if r.ask == nil && !busy[r.topic] && (old == nil || r.used < old.used) {
			old = r
		}
	}
	if old == nil {
		return false
	}
	delete(c.routes.byTopic, old.topic)
	c.routes.list = slices.DeleteFunc(c.routes.list, func(r *route) bool { return r == old })
	return true
}

// routeTopic is the key of the route an operation needs.
func (op *operation) routeTopic() string {
	if op.kind == OpCreateTopic {
		return clusterTable
	}
	return op.out.Topic
}

// wantRoute asks for a fresh route of an operation's topic.
func (c *Client) wantRoute(op *operation) {
	if r := c.routeOf(op.routeTopic()); r != nil {
		r.wanted = true
	}
}

// settleRoutes moves every route's question along.
func (c *Client) settleRoutes() {
	if c.stopping {
		return
	}
	c.routes.turn = append(c.routes.turn[:0], c.routes.list...) // a step may change the list
	for _, r := range c.routes.turn {
		for c.stepRoute(r) {
		}
	}
}

// stepRoute takes one step; true when another may follow at once.
func (c *Client) stepRoute(r *route) bool {
	now := c.now.Mono
	switch {
	case r.ask == nil:
		if now >= r.pollAt {
			r.pollAt = node.Never
			r.wanted = r.wanted || c.inUse(r)
		}
		if !r.wanted || now < r.notBefore {
			return false
		}
		return c.askRoute(r)
	case r.ask.conn.lost:
		c.routeFailed(r, "no connection to "+r.ask.conn.addr+": "+r.ask.conn.reason)
		return true
	case now >= r.ask.until:
		k := r.ask.conn
		c.failed(k.addr, true)
		c.routeFailed(r, "no answer from "+k.addr)
		c.suspect(k, now-node.Time(c.opt.RouteTimeout))
		return true
	case !r.ask.sent && r.ask.conn.up:
		c.sendQuestion(r)
	}
	return false
}

// askRoute begins a question to a name server that was not asked in this round:
// one that does not fail before others. True when one was begun.
func (c *Client) askRoute(r *route) bool {
	if c.now.Mono > r.notBefore.Add(c.opt.RetryBackoffMax) {
		r.fruitless = 0 // it has been quiet: pauses begin small again
	}
	pick := c.pickServer(r)
	if pick < 0 {
		c.endRound(r)
		return false
	}
	r.asked[pick] = true
	r.server = (pick + 1) % len(r.asked)
	k := c.connTo(c.opt.NamesrvAddrs[pick])
	if k == nil {
		r.remark = fmt.Sprintf("no stream to a name server: %d are open, the limit (maxSessions)", c.opt.MaxSessions)
		c.endRound(r)
		return false
	}
	r.ask = &question{conn: k, until: c.now.Mono.Add(c.opt.RouteTimeout)}
	return true
}

// pickServer is the next name server of the round, -1 when the rest are not worth
// a question yet.
func (c *Client) pickServer(r *route) int {
	late := -1
	for i := range r.asked {
		at := (r.server + i) % len(r.asked)
		addr := c.opt.NamesrvAddrs[at]
		switch {
		case r.asked[at]:
		case !c.health.avoided(addr, c.now.Mono):
			return at
		case late < 0 && c.health.retryAt(addr) <= c.now.Mono:
			late = at
		}
	}
	return late
}

func (c *Client) sendQuestion(r *route) {
	f := wire.NewRequest(wire.ReqGetClusterInfo, 0, nil, nil)
	if r.topic != clusterTable {
		f = wire.NewRequest(wire.ReqGetRoute, 0, &wire.RouteRequest{Topic: r.topic, AcceptStandardJSONOnly: true}, nil)
	}
	req := &request{conn: r.ask.conn, route: r}
	c.transmit(req, f)
	r.ask.sent, r.ask.opaque = true, req.opaque
}

// endQuestion forgets the outstanding question.
func (c *Client) endQuestion(r *route) {
	if r.ask != nil && r.ask.sent {
		delete(c.pending, r.ask.opaque)
	}
	r.ask = nil
}

// routeFailed goes on with the next name server at once; after a whole round
// without a route it pauses.
func (c *Client) routeFailed(r *route, why string) {
	c.endQuestion(r)
	r.remark = why
	if r.code != wire.CodeTopicNotExist {
		r.code = NoCode
	}
	c.nextServer(r)
}

// nextServer ends the round when every name server has been asked.
func (c *Client) nextServer(r *route) {
	if !slices.Contains(r.asked, false) {
		c.endRound(r)
	}
}

// endRound pauses. When every name server was reached and knows no such topic, the
// topic is taken not to exist; one that cannot be asked may know it.
func (c *Client) endRound(r *route) {
	if r.absent == len(r.asked) && r.data == nil {
		r.absentAt, r.wanted = c.now.Mono, false
		c.touchTopic(r.topic)
	}
	r.newRound()
	c.pauseRoute(r)
}

func (r *route) newRound() {
	clear(r.asked)
	r.absent = 0
}

func (c *Client) pauseRoute(r *route) {
	r.fruitless++
	r.notBefore = c.now.Mono.Add(c.backoff(r.fruitless, r.topic))
}

// routeAnswered takes a name server's answer.
func (c *Client) routeAnswered(r *route, f *wire.Frame) {
	if r.ask == nil || r.ask.opaque != f.Head.Opaque {
		return
	}
	k := r.ask.conn
	c.endQuestion(r)
	c.health.ok(k.addr)
	c.stats.routes++
	if f.Head.Code != wire.CodeSuccess {
		r.code, r.remark = f.Head.Code, f.Head.Remark
		if f.Head.Code == wire.CodeTopicNotExist {
			r.absent++
		}
		c.nextServer(r)
		return
	}
	changed, err := c.learn(r, f.Body)
	if err != nil {
		c.failed(k.addr, false)
		c.routeFailed(r, fmt.Sprintf("route from %s: %v", k.addr, err))
		return
	}
	r.newRound()
	r.absentAt = 0
	r.code, r.remark = wire.CodeSuccess, ""
	r.wanted, r.learned = false, c.now.Mono
	r.pollAt = c.now.Mono.Add(c.opt.PollNameServerInterval)
	if changed {
		r.fruitless = 0
	}
	c.pauseRoute(r) // the least time between two refreshes
	c.touchTopic(r.topic)
}

// learn takes the body of a route answer; changed when it says something new. A
// route that a client could not use is an error and leaves the old one.
func (c *Client) learn(r *route, body []byte) (changed bool, err error) {
	if r.topic == clusterTable {
		info := &wire.ClusterInfo{}
		if err := wire.UnmarshalBody(body, info); err != nil {
			return false, err
		}
		r.info = info
		return true, nil
	}
	data := &wire.RouteData{}
	if err := wire.UnmarshalBody(body, data); err != nil {
		return false, err
	}
	if err := checkRoute(data); err != nil {
		return false, err
	}
	changed = r.data == nil || string(wire.MarshalBody(r.data)) != string(wire.MarshalBody(data))
	if !changed {
		return false, nil
	}
	before := r.data
	r.data = data
	r.write = writable(data, 0)
	for i := range data.BrokerDatas {
		b := &data.BrokerDatas[i]
		if master := b.BrokerAddrs[masterRole]; master != addrOf(before, b.BrokerName, masterRole) {
			c.emit(event.Event{Kind: event.RouteLearned, Group: b.BrokerName, Broker: ha.BrokerID(masterRole), Text: master})
		}
	}
	c.leaveMaster(r)
	return true, nil
}

// maxRouteQueues bounds the queues of one topic over all groups.
const maxRouteQueues = 1 << 17

func checkRoute(d *wire.RouteData) error {
	queues := 0
	for _, q := range d.QueueDatas {
		if q.ReadQueueNums < 0 || q.WriteQueueNums < 0 || q.ReadQueueNums > maxRouteQueues || q.WriteQueueNums > maxRouteQueues {
			return fmt.Errorf("group %s has %d read and %d write queues", q.BrokerName, q.ReadQueueNums, q.WriteQueueNums)
		}
		queues += int(max(q.ReadQueueNums, q.WriteQueueNums))
	}
	if queues > maxRouteQueues {
		return fmt.Errorf("%d queues, at most %d", queues, maxRouteQueues)
	}
	for _, b := range d.BrokerDatas {
		for _, addr := range b.BrokerAddrs { // tidy:unordered any bad address is refused, whichever comes first
			if !validAddr(addr) {
				return fmt.Errorf("group %s has an address that is not host:port", b.BrokerName)
			}
		}
	}
	return nil
}

// writable lists the queues that can be sent to; at most limit of each group
// unless limit is 0.
func writable(d *wire.RouteData, limit int32) []queueRef {
	var out []queueRef
	for _, q := range d.QueueDatas {
		addr := addrOf(d, q.BrokerName, masterRole)
		if q.Perm&wire.PermWrite == 0 || addr == "" {
			continue
		}
		n := q.WriteQueueNums
		if limit > 0 {
			n = min(n, limit)
		}
		for id := range n {
			out = append(out, queueRef{q.BrokerName, addr, id})
		}
	}
	return out
}

// addrOf is the address of a role of a group, "" when there is none.
func addrOf(d *wire.RouteData, broker string, role int64) string {
	if d == nil {
		return ""
	}
	for i := range d.BrokerDatas {
		if d.BrokerDatas[i].BrokerName == broker {
			return d.BrokerDatas[i].BrokerAddrs[role]
		}
	}
	return ""
}

// leaveMaster ends the pulls that a former master holds: it will not be told of
// new messages, and may never answer.
func (c *Client) leaveMaster(r *route) {
	for _, op := range c.order {
		if op.kind != OpPull || op.state != opInFlight || op.out.Topic != r.topic {
			continue
		}
		t := op.current()
		if !knownAddr(r.data, t.Broker, t.Addr) {
			n := len(op.out.Tries) - 1
			delete(c.pending, op.opaques[n])
			c.trySilent(op, n, "the route no longer names this address")
		}
	}
}

func knownAddr(d *wire.RouteData, broker, addr string) bool {
	for i := range d.BrokerDatas {
		if d.BrokerDatas[i].BrokerName != broker {
			continue
		}
		for _, a := range d.BrokerDatas[i].BrokerAddrs { // tidy:unordered membership only
			if a == addr {
				return true
			}
		}
	}
	return false
}

// touchTopic looks again at everything that needs a topic's route.
func (c *Client) touchTopic(topic string) {
	for _, op := range c.order {
		if op.state != opDone && (op.routeTopic() == topic || topic == templateTopic && op.kind == OpSend) {
			c.touch(op)
		}
	}
}

// inUse reports whether a route is worth refreshing without a reason.
func (c *Client) inUse(r *route) bool {
	if c.now.Mono.Sub(r.used) < 2*c.opt.PollNameServerInterval {
		return true
	}
	return slices.ContainsFunc(c.subs, func(s *subscription) bool { return s.arg.Topic == r.topic })
}

func (r *route) deadline() node.Time {
	switch {
	case r.ask != nil:
		return r.ask.until
	case r.wanted:
		return r.notBefore
	}
	return r.pollAt
}

// routeFault is why an operation got no answer from a broker: what the name
// servers said last.
func (c *Client) routeFault(op *operation) (int32, string) {
	r := c.routes.byTopic[op.routeTopic()]
	switch {
	case r == nil || r.data != nil && len(r.write) > 0 || r.info != nil:
		return NoCode, ""
	case r.data != nil:
		return NoCode, "no group of the route has a master that can be written to"
	}
	return r.code, r.remark
}
