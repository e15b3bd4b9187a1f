package client

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Options configure a client. Tags name the property of RocketMQ's client, or
// Lockstep's own where it has none. Start from DefaultOptions; a duration, limit
// or id left at zero takes its default.
type Options struct {
	// ClientID names this client in heartbeats ("ip@instance"); it must be unique
	// among the clients of a consumer group.
	ClientID string `key:"clientId"`
	// NamesrvAddrs are the name servers, host:port each; at least one.
	NamesrvAddrs []string `key:"namesrvAddr"`
	// ProducerGroup and ConsumerGroup go into heartbeats and requests. Either may
	// be empty when the client does not send, or does not consume.
	ProducerGroup string `key:"producerGroup"`
	ConsumerGroup string `key:"consumerGroup"`
	// Seed spreads clients over name servers and queues; equal seeds choose alike.
	Seed uint64 `key:"seed"`

	// SendMsgTimeout is the total budget of one logical send, route look-up,
	// connects and retries included.
	SendMsgTimeout time.Duration `key:"sendMsgTimeout"`
	// SendMsgMaxTimeoutPerRequest is the budget of one try. A try that exceeds it
	// is unknown; the client moves on but still takes a late answer.
	SendMsgMaxTimeoutPerRequest time.Duration `key:"sendMsgMaxTimeoutPerRequest"`
	// RetryTimesWhenSendFailed is how many tries that reached a broker may follow the
	// first such one, 0 to 64. A try that no stream took costs nothing but time.
	RetryTimesWhenSendFailed int `key:"retryTimesWhenSendFailed"`
	// CreateTopicIfAbsent lets sends to an unknown topic use the route of TBW102,
	// so that the broker creates the topic (wire contracts 4.10).
	CreateTopicIfAbsent bool `key:"createTopicIfAbsent"`

	// RequestTimeout is the total budget of offset requests and CreateTopic;
	// RequestTryTimeout that of one try.
	RequestTimeout    time.Duration `key:"requestTimeout"`
	RequestTryTimeout time.Duration `key:"requestTryTimeout"`
	// RouteTimeout is the budget of one question to one name server: a dead one
	// must leave time for the next within a send's budget.
	RouteTimeout time.Duration `key:"routeTimeout"`
	// ConnectTimeout bounds a dial.
	ConnectTimeout time.Duration `key:"connectTimeout"`
	// BrokerSuspendMaxTime is how long a broker may hold a pull that finds nothing;
	// PullGrace is added to it for the client's own time-out (brokers look at held
	// pulls each 5 s, wire contracts 2.2).
	BrokerSuspendMaxTime time.Duration `key:"brokerSuspendMaxTimeMillis"`
	PullGrace            time.Duration `key:"pullGrace"`
	// PullBatchSize is maxMsgNums of pulls.
	PullBatchSize int `key:"pullBatchSize"`

	// PollNameServerInterval refreshes the routes in use; failures refresh sooner.
	PollNameServerInterval time.Duration `key:"pollNameServerInterval"`
	// HeartbeatBrokerInterval between heartbeats to each connected broker.
	HeartbeatBrokerInterval time.Duration `key:"heartbeatBrokerInterval"`
	// PersistConsumerOffsetInterval between offset commits of a subscription.
	PersistConsumerOffsetInterval time.Duration `key:"persistConsumerOffsetInterval"`

	// RetryBackoffMin is the pause before the next try at the same broker or name
	// server, doubled with each failure in a row up to RetryBackoffMax.
	RetryBackoffMin time.Duration `key:"retryBackoffMin"`
	RetryBackoffMax time.Duration `key:"retryBackoffMax"`
	// AvoidanceTime is how long other brokers are preferred to one that timed out
	// or could not be reached (latency fault tolerance).
	AvoidanceTime time.Duration `key:"avoidanceTime"`
	// SessionSilence is how long a session may stay silent while a request has
	// timed out on it before it is taken for half-open and closed.
	SessionSilence time.Duration `key:"sessionSilence"`

	// MaxQueued limits operations begun and not finished; MaxInFlight those whose
	// frame is on a session at one time; the others wait their turn.
	MaxQueued   int `key:"maxQueued"`
	MaxInFlight int `key:"maxInFlight"`
	// MaxMessageSize limits a body in bytes.
	MaxMessageSize int `key:"maxMessageSize"`
	// MaxSessions limits open streams; MaxTopics limits cached routes.
	MaxSessions int `key:"maxSessions"`
	MaxTopics   int `key:"maxTopics"`
	// MaxDelivered limits messages of subscriptions that wait to be taken; pulls
	// pause above it.
	MaxDelivered int `key:"maxDelivered"`
}

// Hard limits of options, so that a slip of the pen does not become a request
// that no broker would take.
const (
	maxNamesrvAddrs  = 64
	maxRetries       = 64
	maxQueuedLimit   = 1 << 20
	maxSessionsLimit = 4096
	maxPullBatch     = 1024
	maxGroupName     = 120 // wire contracts 4.8
)

// DefaultOptions are RocketMQ's defaults where it has the option, except that a
// try gets half the send's budget: one silent broker must not eat all of it.
func DefaultOptions() Options {
	return Options{
		ClientID: "lockstep@client", SendMsgTimeout: 3 * time.Second, SendMsgMaxTimeoutPerRequest: 1500 * time.Millisecond,
		RetryTimesWhenSendFailed: 2, RequestTimeout: 5 * time.Second, RequestTryTimeout: 2 * time.Second,
		RouteTimeout: 700 * time.Millisecond, ConnectTimeout: time.Second,
		BrokerSuspendMaxTime: 15 * time.Second, PullGrace: 10 * time.Second, PullBatchSize: 32,
		PollNameServerInterval: 30 * time.Second, HeartbeatBrokerInterval: 30 * time.Second,
		PersistConsumerOffsetInterval: 5 * time.Second,
		RetryBackoffMin:               50 * time.Millisecond, RetryBackoffMax: 2 * time.Second,
		AvoidanceTime: 3 * time.Second, SessionSilence: 5 * time.Second,
		MaxQueued: 4096, MaxInFlight: 1024, MaxMessageSize: 4 << 20, MaxSessions: 256, MaxTopics: 1024, MaxDelivered: 1024,
	}
}

// withDefaults fills zero fields.
func (o Options) withDefaults() Options {
	d := DefaultOptions()
	str(&o.ClientID, d.ClientID)
	for _, f := range []struct{ v, d *time.Duration }{
		{&o.SendMsgTimeout, &d.SendMsgTimeout}, {&o.SendMsgMaxTimeoutPerRequest, &d.SendMsgMaxTimeoutPerRequest},
		{&o.RequestTimeout, &d.RequestTimeout}, {&o.RequestTryTimeout, &d.RequestTryTimeout},
		{&o.RouteTimeout, &d.RouteTimeout}, {&o.ConnectTimeout, &d.ConnectTimeout},
		{&o.BrokerSuspendMaxTime, &d.BrokerSuspendMaxTime}, {&o.PullGrace, &d.PullGrace},
		{&o.PollNameServerInterval, &d.PollNameServerInterval}, {&o.HeartbeatBrokerInterval, &d.HeartbeatBrokerInterval},
		{&o.PersistConsumerOffsetInterval, &d.PersistConsumerOffsetInterval},
		{&o.RetryBackoffMin, &d.RetryBackoffMin}, {&o.RetryBackoffMax, &d.RetryBackoffMax},
		{&o.AvoidanceTime, &d.AvoidanceTime}, {&o.SessionSilence, &d.SessionSilence},
	} {
		num(f.v, *f.d)
	}
	num(&o.PullBatchSize, d.PullBatchSize)
	num(&o.MaxQueued, d.MaxQueued)
	num(&o.MaxInFlight, d.MaxInFlight)
	num(&o.MaxMessageSize, d.MaxMessageSize)
	num(&o.MaxSessions, d.MaxSessions)
	num(&o.MaxTopics, d.MaxTopics)
	num(&o.MaxDelivered, d.MaxDelivered)
	return o
}

func str(v *string, d string) {
	if *v == "" {
		*v = d
	}
}

func num[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Validate reports every option that cannot work, with the remedy. It looks at
// the options as New will use them, defaults filled in.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.NamesrvAddrs) == 0 || len(o.NamesrvAddrs) > maxNamesrvAddrs {
		bad("namesrvAddr: %d name servers; give 1 to %d as host:port", len(o.NamesrvAddrs), maxNamesrvAddrs)
	}
	for _, a := range o.NamesrvAddrs {
		if !validAddr(a) {
			bad("namesrvAddr: %q is not host:port", a)
		}
	}
	for _, g := range [][2]string{{"producerGroup", o.ProducerGroup}, {"consumerGroup", o.ConsumerGroup}} {
		if len(g[1]) > maxGroupName {
			bad("%s: %d bytes; at most %d", g[0], len(g[1]), maxGroupName)
		}
	}
	o.validateTimes(bad)
	o.validateLimits(bad)
	return errors.Join(errs...)
}

func (o *Options) validateTimes(bad func(string, ...any)) {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"sendMsgTimeout", o.SendMsgTimeout}, {"sendMsgMaxTimeoutPerRequest", o.SendMsgMaxTimeoutPerRequest},
		{"requestTimeout", o.RequestTimeout}, {"requestTryTimeout", o.RequestTryTimeout},
		{"routeTimeout", o.RouteTimeout}, {"connectTimeout", o.ConnectTimeout},
		{"brokerSuspendMaxTimeMillis", o.BrokerSuspendMaxTime}, {"pullGrace", o.PullGrace},
		{"pollNameServerInterval", o.PollNameServerInterval}, {"heartbeatBrokerInterval", o.HeartbeatBrokerInterval},
		{"persistConsumerOffsetInterval", o.PersistConsumerOffsetInterval},
		{"retryBackoffMin", o.RetryBackoffMin}, {"retryBackoffMax", o.RetryBackoffMax},
		{"avoidanceTime", o.AvoidanceTime}, {"sessionSilence", o.SessionSilence},
	} {
		if f.d < time.Millisecond {
			bad("%s: %v; at least 1ms", f.name, f.d)
		}
	}
	if o.SendMsgMaxTimeoutPerRequest > o.SendMsgTimeout {
		bad("sendMsgMaxTimeoutPerRequest %v is above sendMsgTimeout %v; lower it", o.SendMsgMaxTimeoutPerRequest, o.SendMsgTimeout)
	}
	if o.RetryBackoffMin > o.RetryBackoffMax {
		bad("retryBackoffMin %v is above retryBackoffMax %v", o.RetryBackoffMin, o.RetryBackoffMax)
	}
}

func (o *Options) validateLimits(bad func(string, ...any)) {
	for _, f := range []struct {
		name        string
		v, min, max int
	}{
		{"retryTimesWhenSendFailed", o.RetryTimesWhenSendFailed, 0, maxRetries}, {"pullBatchSize", o.PullBatchSize, 1, maxPullBatch},
		{"maxQueued", o.MaxQueued, 1, maxQueuedLimit}, {"maxInFlight", o.MaxInFlight, 1, maxQueuedLimit},
		{"maxMessageSize", o.MaxMessageSize, 1, 8 << 20}, {"maxSessions", o.MaxSessions, 1, maxSessionsLimit},
		{"maxTopics", o.MaxTopics, 1, maxQueuedLimit}, {"maxDelivered", o.MaxDelivered, 1, maxQueuedLimit},
	} {
		if f.v < f.min || f.v > f.max {
			bad("%s: %d; %d to %d", f.name, f.v, f.min, f.max)
		}
	}
}

// validAddr reports whether a looks like host:port. Names are resolved by the host.
func validAddr(a string) bool {
	i := strings.LastIndexByte(a, ':')
	if i <= 0 || i == len(a)-1 || len(a) > 255 || strings.ContainsAny(a, " \t\r\n\x00") {
		return false
	}
	port := 0
	for _, c := range a[i+1:] {
		if c < '0' || c > '9' || port > 65535 {
			return false
		}
		port = port*10 + int(c-'0')
	}
	return port >= 1 && port <= 65535
}
