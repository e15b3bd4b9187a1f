package namesrv

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Options configure a name server. Tags name RocketMQ's property, or Lockstep's
// own where RocketMQ has none. Start from DefaultOptions; a number, duration or
// address left at zero takes its default.
type Options struct {
	// ListenAddr is the served address, host:port.
	ListenAddr string `key:"listenAddr"`
	// NeedWaitForService answers "name server not ready" instead of "no such topic"
	// for WaitSecondsForService after the start, because the topic's broker may not
	// have come by yet. RocketMQ's default is false; a topic that is known is
	// answered at once either way.
	NeedWaitForService bool `key:"needWaitForService"`
	// WaitSecondsForService: a Java broker registers each 30 s. 0 to 24 h.
	WaitSecondsForService time.Duration `key:"waitSecondsForService" unit:"s"`
	// BrokerExpiry is how long a registration without heartbeatTimeoutMillis lives
	// without a sign of its broker. 100 ms to 24 h.
	BrokerExpiry time.Duration `key:"brokerExpiryMillis"`
	// DeleteTopicWithBrokerRegistration lets a master's full registration remove
	// the topics that it does not name.
	DeleteTopicWithBrokerRegistration bool `key:"deleteTopicWithBrokerRegistration"`
	// SupportActingMaster presents the smallest slave as role 0 of a group without
	// a master, for topics that cannot be written there.
	SupportActingMaster bool `key:"supportActingMaster"`
	// NotifyMinBrokerIDChanged sends 905 when the smallest role id of a group of
	// acting masters changes.
	NotifyMinBrokerIDChanged bool `key:"notifyMinBrokerIdChanged"`
	// OrderMessageEnable adds the ORDER_TOPIC_CONFIG of a topic to its route.
	OrderMessageEnable bool `key:"orderMessageEnable"`
	// EnableAllTopicList allows 206, EnableTopicList the lists of one cluster.
	EnableAllTopicList bool `key:"enableAllTopicList"`
	EnableTopicList    bool `key:"enableTopicList"`

	// Limits, each against a peer that asks for too much.
	MaxSessions      int `key:"maxSessions"`      // open streams; one more is closed at once
	MaxGroups        int `key:"maxGroups"`        // broker groups
	MaxGroupMembers  int `key:"maxGroupMembers"`  // role ids in one group
	MaxTopics        int `key:"maxTopics"`        // (topic, group) pairs over all groups
	MaxConfigEntries int `key:"maxConfigEntries"` // keys of the KV store over all namespaces
	MaxConfigBytes   int `key:"maxConfigBytes"`   // bytes of one key or value
}

// Hard bounds of options.
const (
	minExpiry   = 100 * time.Millisecond
	maxDuration = 24 * time.Hour
	maxLimit    = 1 << 24
)

// DefaultOptions are RocketMQ's defaults, except that a fresh name server tells
// "not ready" from "no such topic".
func DefaultOptions() Options {
	return Options{
		ListenAddr: "0.0.0.0:9876", NeedWaitForService: true, WaitSecondsForService: 45 * time.Second, BrokerExpiry: 120 * time.Second,
		EnableAllTopicList: true, EnableTopicList: true,
		MaxSessions: 16384, MaxGroups: 4096, MaxGroupMembers: 64, MaxTopics: 1 << 19,
		MaxConfigEntries: 4096, MaxConfigBytes: 32 << 10,
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	if o.ListenAddr == "" {
		o.ListenAddr = d.ListenAddr
	}
	num(&o.WaitSecondsForService, d.WaitSecondsForService)
	num(&o.BrokerExpiry, d.BrokerExpiry)
	num(&o.MaxSessions, d.MaxSessions)
	num(&o.MaxGroups, d.MaxGroups)
	num(&o.MaxGroupMembers, d.MaxGroupMembers)
	num(&o.MaxTopics, d.MaxTopics)
	num(&o.MaxConfigEntries, d.MaxConfigEntries)
	num(&o.MaxConfigBytes, d.MaxConfigBytes)
	return o
}

func num[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Validate reports every option that cannot work, with what would.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if why := addrFault(o.ListenAddr); why != "" {
		bad("listenAddr: address %q %s; give host:port", o.ListenAddr, why)
	}
	if o.WaitSecondsForService < 0 || o.WaitSecondsForService > maxDuration {
		bad("waitSecondsForService: %v; 0 to %v", o.WaitSecondsForService, maxDuration)
	}
	if o.BrokerExpiry < minExpiry || o.BrokerExpiry > maxDuration {
		bad("brokerExpiryMillis: %v; %v to %v", o.BrokerExpiry, minExpiry, maxDuration)
	}
	for _, l := range []struct {
		name string
		v    int
	}{
		{"maxSessions", o.MaxSessions}, {"maxGroups", o.MaxGroups}, {"maxGroupMembers", o.MaxGroupMembers},
		{"maxTopics", o.MaxTopics}, {"maxConfigEntries", o.MaxConfigEntries}, {"maxConfigBytes", o.MaxConfigBytes},
	} {
		if l.v < 1 || l.v > maxLimit {
			bad("%s: %d; 1 to %d", l.name, l.v, maxLimit)
		}
	}
	return errors.Join(errs...)
}

// addrFault says what is wrong with a host:port, or "". Clients cut route bodies
// as text, so that blanks and commas in an address would break them (wire
// contracts 5.4).
func addrFault(a string) string {
	i := strings.LastIndexByte(a, ':')
	switch {
	case len(a) > 255:
		return "is longer than 255 bytes"
	case i <= 0 || i == len(a)-1:
		return "is not host:port"
	case strings.ContainsFunc(a, func(r rune) bool { return r <= ' ' || r == ',' || r == '"' || r == '\\' || r > '~' }):
		return "has characters that do not belong into an address"
	}
	port := 0
	for _, c := range a[i+1:] {
		if c < '0' || c > '9' {
			return "has a port that is not a number"
		}
		if port = port*10 + int(c-'0'); port > 65535 {
			return "has a port above 65535"
		}
	}
	if port == 0 {
		return "has port 0"
	}
	return ""
}

// nameFault says what is wrong with the name of a topic, group or cluster, or "".
// System topics are named after brokers and clusters, whose names may hold more
// characters than topics (dots, for one), so only what would break a reader is
// refused.
func nameFault(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > 255:
		return "is longer than 255 bytes"
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == ',' || r == 0x7f || r == 0xfffd }):
		return "has characters that are not allowed in names"
	}
	return ""
}
