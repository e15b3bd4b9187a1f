package client

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
)

// Topic is a topic to create or change.
type Topic struct {
	Name string
	// ReadQueues and WriteQueues of each broker group; 0 means 8, RocketMQ's default.
	ReadQueues, WriteQueues int32
	// Perm is wire.PermRead | wire.PermWrite when 0.
	Perm int32
	// Cluster to create it in; "" means every cluster.
	Cluster string
	// Groups names the broker groups; empty means all of the cluster.
	Groups []string
}

// maxTopicQueues bounds the queues that CreateTopic asks for.
const maxTopicQueues = 1024

// CreateTopic begins to create a topic at the master of every broker group named.
// It ends Done when each has agreed, and Unknown when some may have.
func (c *Client) CreateTopic(now node.Now, t Topic) (Ticket, error) {
	c.now = now
	if err := c.admit(); err != nil {
		return 0, fmt.Errorf("create topic: %w", err)
	}
	for _, n := range []*int32{&t.ReadQueues, &t.WriteQueues} {
		if *n == 0 {
			*n = 8
		}
		if *n < 0 || *n > maxTopicQueues {
			return 0, fmt.Errorf("create topic %s: %d queues; 1 to %d", t.Name, *n, maxTopicQueues)
		}
	}
	if !validTopic(t.Name) {
		return 0, fmt.Errorf("create topic: %.80q is not a topic name", t.Name)
	}
	if t.Perm == 0 {
		t.Perm = wire.PermRead | wire.PermWrite
	}
	op := &operation{kind: OpCreateTopic, out: Outcome{Topic: t.Name}, create: &creation{topic: t, head: wire.CreateTopicRequest{
		Topic: t.Name, DefaultTopic: templateTopic, ReadQueueNums: t.ReadQueues, WriteQueueNums: t.WriteQueues, Perm: t.Perm,
		TopicFilterType: wire.FilterTypeSingleTag,
	}}}
	return c.begin(op, node.Time(c.opt.RequestTimeout), node.Time(c.opt.RequestTryTimeout)), nil
}

// creation is the progress of a CreateTopic.
type creation struct {
	topic    Topic
	head     wire.CreateTopicRequest
	done     []string // groups that have agreed
	wanted   []string // all groups, once the cluster table is known
	complete bool
}

// remaining lists the groups that have not agreed yet, sorted.
func (w *creation) remaining(info *wire.ClusterInfo) []string {
	w.wanted = slices.Clone(w.topic.Groups)
	if len(w.wanted) == 0 {
		for name, b := range info.BrokerAddrTable { // tidy:unordered sorted below
			if w.topic.Cluster == "" || b.Cluster == w.topic.Cluster {
				w.wanted = append(w.wanted, name)
			}
		}
	}
	slices.Sort(w.wanted)
	return slices.DeleteFunc(slices.Clone(w.wanted), func(g string) bool { return slices.Contains(w.done, g) })
}

// judgeCreate takes one group's answer. The request says the same each time, so
// that it may be repeated where it is not known whether it was done.
func (op *operation) judgeCreate(t *Try, code int32, remark string) verdict {
	w := op.create
	switch code {
	case wire.CodeSuccess:
		if !slices.Contains(w.done, t.Broker) {
			w.done = append(w.done, t.Broker)
		}
		w.complete = len(w.wanted) > 0 && !slices.ContainsFunc(w.wanted, func(g string) bool { return !slices.Contains(w.done, g) })
		return verdict{end: TryDone, final: w.complete}
	case wire.CodeInvalidParameter, wire.CodeNoPermission, wire.CodeRequestCodeNotSupported:
		return verdict{end: TryRefused, final: true}
	case wire.CodeSystemBusy, wire.CodeServiceNotAvailable, wire.CodeSlaveNotAvailable, wire.CodeGoAway:
		return verdict{end: TryRefused}
	case wire.CodeSystemError:
		if strings.Contains(remark, wire.RemarkNotEnoughReplicas) {
			return verdict{end: TryRefused}
		}
	}
	return verdict{end: TryDoubtful}
}

// conclude corrects an outcome in which some groups agreed and others did not.
func (w *creation) conclude(o *Outcome) {
	if w.complete {
		o.Status, o.Code = Done, wire.CodeSuccess
		return
	}
	if o.Status != Done {
		return
	}
	o.Status, o.Code = Unknown, NoCode
	for i := len(o.Tries) - 1; i >= 0; i-- {
		if t := &o.Tries[i]; t.End != TryDone {
			o.Code, o.Remark = t.Code, t.Remark
			break
		}
	}
	o.Remark = joinRemarks(o.Remark, "agreed: "+strings.Join(w.done, " "))
}
