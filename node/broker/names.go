package broker

import (
	"fmt"
	"strconv"
	"strings"

	"lockstep/node/wire"
	"lockstep/storage"
)

// Prefixes and names with a meaning (wire contracts 4.8, 4.9).
const (
	retryPrefix     = "%RETRY%"
	dlqPrefix       = "%DLQ%"
	systemPrefix    = "rmq_sys_"
	lockstepPrefix  = "rmq_sys_LOCKSTEP_"
	sysGroupPrefix  = "CID_RMQ_SYS_"
	templateTopic   = "TBW102"
	selfTestTopic   = "SELF_TEST_TOPIC"
	benchmarkTopic  = "BenchmarkTest"
	offsetMoved     = "OFFSET_MOVED_EVENT"
	scheduleTopic   = "SCHEDULE_TOPIC_XXXX"
	halfTopic       = "RMQ_SYS_TRANS_HALF_TOPIC"
	opHalfTopic     = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	transCheckTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	traceTopic      = "RMQ_SYS_TRACE_TOPIC"
)

// systemGroups always exist.
var systemGroups = []string{"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
	"CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"}

// retryGroup returns the group of a retry topic.
func retryGroup(topic string) (group string, ok bool) { return strings.CutPrefix(topic, retryPrefix) }

// checkTopicName returns "" or what is wrong with a topic name.
func checkTopicName(name string) string {
	limit := maxTopicName
	if strings.HasPrefix(name, retryPrefix) || strings.HasPrefix(name, dlqPrefix) {
		limit = maxSystemTopicName
	}
	return checkName("topic", name, limit)
}

// checkGroupName returns "" or what is wrong with a group name.
func checkGroupName(name string) string { return checkName("group", name, maxGroupName) }

func checkName(what, name string, limit int) string {
	if name == "" {
		return "the specified " + what + " is blank"
	}
	if len(name) > limit {
		return fmt.Sprintf("the specified %s of %d bytes is longer than the limit of %d", what, len(name), limit)
	}
	for i := 0; i < len(name); i++ {
		if !nameByte(name[i]) {
			return fmt.Sprintf("the specified %s %q contains illegal characters, allowing only ^[%%|a-zA-Z0-9_-]+$", what, name)
		}
	}
	return ""
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '%' || c == '|' || c == '_' || c == '-'
}

// systemTopic reports whether clients may neither create nor delete a topic.
func (b *Broker) systemTopic(name string) bool {
	switch name {
	case templateTopic, selfTestTopic, benchmarkTopic, offsetMoved, scheduleTopic, halfTopic, opHalfTopic,
		transCheckTopic, traceTopic, b.o.BrokerClusterName, b.o.BrokerName, b.o.BrokerClusterName + "_REPLY_TOPIC":
		return true
	}
	return strings.HasPrefix(name, systemPrefix)
}

// sendForbidden reports whether clients may not send to a topic. Lockstep's own
// topics are among them: a forged metadata record would become the state of the
// whole group.
func sendForbidden(name string) bool {
	switch name {
	case scheduleTopic, halfTopic, opHalfTopic, transCheckTopic, selfTestTopic, offsetMoved, storage.MetaTopic, storage.BarrierTopic:
		return true
	}
	return strings.HasPrefix(name, lockstepPrefix)
}

// systemGroup reports whether a group always exists and cannot be deleted.
func systemGroup(name string) bool {
	for _, g := range systemGroups {
		if g == name {
			return true
		}
	}
	return strings.HasPrefix(name, sysGroupPrefix)
}

// notSupported is RocketMQ's remark for a request code without a handler.
func notSupported(code int32) string {
	return " request type " + strconv.Itoa(int(code)) + " not supported"
}

// notYet is the remark for codes of the protocol whose feature this broker does
// not have; nothing was stored.
func notYet(code int32) string {
	return notSupported(code) + ": " + wire.RequestName(code) + " needs delayed or transactional messages, which this broker does not store"
}

// systemTopics are the topics that exist by configuration alone. They are not in
// the log: each broker of a version has the same ones.
func (b *Broker) systemTopics() map[string]wire.TopicConfig {
	if b.system != nil {
		return b.system
	}
	rw := wire.PermRead | wire.PermWrite
	b.system = map[string]wire.TopicConfig{}
	for _, c := range []wire.TopicConfig{
		newTopic(selfTestTopic, 1, rw),
		newTopic(benchmarkTopic, 1024, rw),
		newTopic(offsetMoved, 1, rw),
		newTopic(b.o.BrokerClusterName, 16, rw|wire.PermInherit),
		newTopic(b.o.BrokerName, 1, rw|wire.PermInherit),
	} {
		b.system[c.TopicName] = c
	}
	if b.o.AutoCreateTopicEnable {
		b.system[templateTopic] = newTopic(templateTopic, b.o.DefaultTopicQueueNums, rw|wire.PermInherit)
	}
	return b.system
}

// newTopic is a topic with equal read and write queues.
func newTopic(name string, queues, perm int32) wire.TopicConfig {
	return wire.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm,
		TopicFilterType: wire.FilterTypeSingleTag, Attributes: map[string]string{}}
}

// topic looks a topic up: the replicated table first, then the system topics.
func (b *Broker) topic(name string) (wire.TopicConfig, bool) {
	if c, ok := b.meta.topics[name]; ok {
		return c, true
	}
	c, ok := b.systemTopics()[name]
	return c, ok
}
