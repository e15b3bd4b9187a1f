package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockstep/node"
	"lockstep/node/client"
	"lockstep/node/host"
	"lockstep/node/wire"
)

// remote are the flags of tools that speak to a cluster.
type remote struct {
	namesrv string
	timeout time.Duration
}

func (r *remote) flags(c *cobra.Command, timeout time.Duration) {
	c.Flags().StringVarP(&r.namesrv, "namesrv", "n", namesrvDefault(), "name servers, `ADDR`;ADDR (default from NAMESRV_ADDR)")
	c.Flags().DurationVar(&r.timeout, "timeout", timeout, "how long to try")
}

func namesrvDefault() string { return os.Getenv("NAMESRV_ADDR") }

func splitAddrs(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
}

// outcomes hands what a client machine finished to the command's goroutine.
type outcomes struct{ list chan client.Outcome }

// maxOutcomes bounds what waits for the command; the loop waits beyond it, which
// holds up nobody but this client.
const maxOutcomes = 4096

// Turn drains the machine.
func (o *outcomes) Turn(_ node.Now, m node.Machine) bool {
	for _, out := range m.(*client.Client).Take() {
		o.list <- out
	}
	return false
}

// Deadline is never: outcomes come after facts.
func (o *outcomes) Deadline() node.Time { return node.Never }

// session is a client on a running host.
type session struct {
	remote   *remote
	node     *host.Node
	outcomes *outcomes
	ctx      context.Context
}

// connect runs a client machine until the returned function is called.
func connect(ctx context.Context, log *slog.Logger, r *remote, adjust func(o *client.Options)) (*session, func(), error) {
	o := client.DefaultOptions()
	o.NamesrvAddrs = splitAddrs(r.namesrv)
	if len(o.NamesrvAddrs) == 0 {
		return nil, nil, refused(errors.New("no name server: give --namesrv HOST:PORT, or set NAMESRV_ADDR"))
	}
	o.ClientID = fmt.Sprintf("%s@lockstep#%d", firstIP(), os.Getpid())
	o.Seed = uint64(time.Now().UnixNano())
	adjust(&o)
	m, err := client.New(o)
	if err != nil {
		return nil, nil, refused(err)
	}
	app := &outcomes{list: make(chan client.Outcome, maxOutcomes)}
	n, err := host.Start(host.Options{Name: "client", Machine: m, App: app, Log: log})
	if err != nil {
		return nil, nil, err
	}
	ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, r.timeout+answerGrace)
	return &session{r, n, app, ctx}, func() {
		defer release()
		defer cancel()
		n.Stop()
		for {
			select {
			case <-app.list: // nobody wants it, but the loop must not wait
			case <-n.Done():
				return
			}
		}
	}, nil
}

// answerGrace lets the machine's own time-outs speak first: they know what was
// tried.
const answerGrace = 500 * time.Millisecond

// do gives the machine work on its loop.
func (s *session) do(f func(now node.Now, c *client.Client) error) error {
	var err error
	if e := s.node.Call(s.ctx, func(now node.Now, m node.Machine) { err = f(now, m.(*client.Client)) }); e != nil {
		return e
	}
	return err
}

// next is the next outcome; it ends with the command's time.
func (s *session) next() (client.Outcome, error) {
	select {
	case o := <-s.outcomes.list:
		return o, nil
	case <-s.ctx.Done():
		return client.Outcome{}, s.ctx.Err()
	}
}

func newSend(l *logging) *cobra.Command {
	var r remote
	var m client.Message
	var keys string
	var count int
	c := &cobra.Command{Use: "send --topic TOPIC BODY...", Short: "Send messages and wait until they are acknowledged", Long: `Send messages and wait until they are acknowledged. Each BODY is one message; "-"
reads one message a line from standard input. With --count N every body is sent N
times, and %d in a body or key becomes the number of the message, from 1.

A line is printed for each message. Exit code 1 if any is not acknowledged; the
line says whether it was refused (not-done) or may yet exist (unknown).`,
		Args: cobra.MinimumNArgs(1), RunE: func(cmd *cobra.Command, bodies []string) error {
			log, err := l.logger(cmd.ErrOrStderr(), slog.LevelWarn)
			if err != nil {
				return err
			}
			if bodies, err = expand(bodies, count, cmd.InOrStdin()); err != nil {
				return err
			}
			s, end, err := connect(cmd.Context(), log, &r, func(o *client.Options) {
				o.ProducerGroup, o.CreateTopicIfAbsent = "lockstep-send", true
				o.SendMsgTimeout, o.RetryTimesWhenSendFailed, o.MaxQueued = r.timeout, 64, max(len(bodies), 1)
				o.SendMsgMaxTimeoutPerRequest = min(o.SendMsgMaxTimeoutPerRequest, r.timeout)
			})
			if err != nil {
				return err
			}
			defer end()
			return send(cmd.OutOrStdout(), s, m, keys, bodies)
		}}
	r.flags(c, 30*time.Second)
	c.Flags().StringVarP(&m.Topic, "topic", "t", "", "`TOPIC`; created if the brokers allow it")
	c.Flags().StringVar(&m.Tag, "tag", "", "`TAG` of the messages, for consumers that filter")
	c.Flags().StringVarP(&keys, "key", "k", "", "`KEY` of the messages")
	c.Flags().IntVar(&count, "count", 1, "how often each body is sent")
	c.MarkFlagRequired("topic")
	return c
}

// maxSends bounds the messages of one command.
const maxSends = 1 << 20

// expand reads "-" and repeats bodies.
func expand(bodies []string, count int, in io.Reader) ([]string, error) {
	if len(bodies) == 1 && bodies[0] == "-" {
		text, err := io.ReadAll(io.LimitReader(in, 1<<30))
		if err != nil {
			return nil, fmt.Errorf("read messages from standard input: %w", err)
		}
		bodies = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	if count < 1 || len(bodies)*count > maxSends {
		return nil, refused(fmt.Errorf("--count %d of %d bodies: 1 to %d messages in all", count, len(bodies), maxSends))
	}
	var out []string
	for range count {
		out = append(out, bodies...)
	}
	return out, nil
}

// send sends all bodies and prints their outcomes in the order in which they end.
func send(w io.Writer, s *session, m client.Message, keys string, bodies []string) error {
	numbered := func(text string, i int) string { return strings.ReplaceAll(text, "%d", fmt.Sprint(i+1)) }
	err := s.do(func(now node.Now, c *client.Client) error {
		for i, b := range bodies {
			one := m
			one.Body, one.Key = []byte(numbered(b, i)), numbered(keys, i)
			if _, err := c.Send(now, one); err != nil {
				return refused(err)
			}
		}
		return nil
	})
	bad := 0
	for range bodies {
		if err != nil {
			return err
		}
		var o client.Outcome
		if o, err = s.next(); err != nil {
			return fmt.Errorf("no outcome of the send: %w", err)
		}
		if o.Status != client.Done {
			bad++
			fmt.Fprintf(w, "%s key=%s code=%d %s\n", o.Status, o.Key, o.Code, o.Remark)
			continue
		}
		fmt.Fprintf(w, "SEND_OK key=%s msgId=%s broker=%s queue=%d offset=%d\n", o.Key, o.MsgID, o.Broker, o.Queue, o.Offset)
	}
	if bad > 0 {
		_, _, err := askAny(splitAddrs(s.remote.namesrv), wire.ReqGetRoute, wire.RouteRequest{Topic: m.Topic}, routeTime)
		if _, ok := errors.AsType[*wrongServerError](err); ok {
			return fmt.Errorf("%d of %d messages were not acknowledged: %w", bad, len(bodies), err)
		}
		return fmt.Errorf("%d of %d messages were not acknowledged", bad, len(bodies))
	}
	return nil
}

func newConsume(l *logging) *cobra.Command {
	var r remote
	var group, from string
	sub := client.Subscription{}
	var count int
	c := &cobra.Command{Use: "consume --topic TOPIC", Short: "Print the messages of a topic", Long: `Print the messages of a topic, one line each: queue, offset, key and body, separated
by tabs. It ends after --count messages, or after --timeout.

A group remembers how far it has come; --group continues where that group left
off. Without one nothing is remembered.`,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := l.logger(cmd.ErrOrStderr(), slog.LevelWarn)
			if err != nil {
				return err
			}
			switch from {
			case "first":
				sub.From = client.FromFirst
			case "last":
				sub.From = client.FromLast
			default:
				return refused(fmt.Errorf("--from %q: write first or last", from))
			}
			sub.NoCommit, sub.Confirm = group == "", group != ""
			s, end, err := connect(cmd.Context(), log, &r, func(o *client.Options) {
				o.ConsumerGroup = group
				if group == "" {
					o.ConsumerGroup = fmt.Sprintf("lockstep-consume-%d", o.Seed)
				}
			})
			if err != nil {
				return err
			}
			defer end()
			return consume(cmd.OutOrStdout(), s, sub, count)
		}}
	r.flags(c, time.Hour)
	c.Flags().StringVarP(&sub.Topic, "topic", "t", "", "`TOPIC`")
	c.Flags().StringVarP(&group, "group", "g", "", "consumer `GROUP` whose offsets are used and kept")
	c.Flags().StringVar(&sub.Tags, "tags", "*", "`TAGS` to take, joined with ||")
	c.Flags().StringVar(&from, "from", "first", "where a group without offsets starts: first or last")
	c.Flags().IntVar(&count, "count", 0, "end after `N` messages; 0 is without end")
	c.MarkFlagRequired("topic")
	return c
}

func consume(w io.Writer, s *session, sub client.Subscription, count int) error {
	err := s.do(func(now node.Now, c *client.Client) error {
		_, err := c.Subscribe(now, sub)
		return refused(err)
	})
	if err != nil {
		return err
	}
	for got := 0; count == 0 || got < count; {
		o, err := s.next()
		if err != nil {
			return s.ended(sub.Topic, got, count)
		}
		printed := o.Messages
		if count > 0 {
			printed = printed[:min(len(printed), count-got)]
		}
		for _, m := range printed {
			if _, err := fmt.Fprintf(w, "%s/%d\t%d\t%s\t%s\n", o.Broker, m.Queue, m.QueueOffset, m.Key, m.Body); err != nil {
				return fmt.Errorf("print a message of %s: %w", sub.Topic, err)
			}
		}
		got += len(printed)
		if err := confirm(s, sub, &o, len(printed)); err != nil {
			return err
		}
	}
	return nil
}

// ended says why a consumer got no more. Without a number to wait for that is no
// failure, unless there never was such a topic.
func (s *session) ended(topic string, got, count int) error {
	if got == 0 {
		_, _, err := askAny(splitAddrs(s.remote.namesrv), wire.ReqGetRoute, wire.RouteRequest{Topic: topic}, routeTime)
		var answer *answerError
		if errors.As(err, &answer) && answer.code == wire.CodeTopicNotExist {
			return fmt.Errorf("0 messages came: the name servers know no topic %s: check its name, or create it by sending to it (lockstep send --topic %s)", topic, topic)
		}
		if err != nil {
			return fmt.Errorf("0 messages came of topic %s: ask the name servers for it: %w", topic, err)
		}
	}
	switch {
	case count == 0:
		return nil
	case errors.Is(s.ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%d of %d messages came of topic %s within %v: it has no more, or its broker does not answer; --timeout waits longer", got, count, topic, s.remote.timeout)
	}
	return fmt.Errorf("%d of %d messages came of topic %s before the interruption", got, count, topic)
}

// routeTime bounds the question for a topic's route.
const routeTime = 2 * time.Second

// confirm lets the group's offset pass the first messages of a delivery, which were
// printed. What was fetched and not printed comes again.
func confirm(s *session, sub client.Subscription, o *client.Outcome, printed int) error {
	if !sub.Confirm || printed == 0 && len(o.Messages) > 0 {
		return nil
	}
	next := o.Next
	if printed < len(o.Messages) {
		next = o.Messages[printed-1].QueueOffset + 1
	}
	return s.do(func(now node.Now, c *client.Client) error {
		return c.Consumed(now, o.Ticket, client.QueueRef{Broker: o.Broker, Queue: o.Queue}, next)
	})
}
