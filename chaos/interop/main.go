// Command interop is a stock RocketMQ Go client as a test peer: it produces keyed
// messages at a rate, or consumes, and writes one JSON line for each outcome. It
// lives in a module of its own, so that nobody who imports Lockstep inherits the
// client.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// line is one outcome: of a send, or of one delivery.
type line struct {
	Kind   string `json:"kind"` // "send" or "read"
	Client int    `json:"client"`
	Key    string `json:"key"`
	Queue  string `json:"queue"` // broker/topic/queue
	Offset int64  `json:"offset"`
	Invoke int64  `json:"invoke"` // wall clock, nanoseconds
	Return int64  `json:"return"`
	Status string `json:"status"` // "done" or "unknown"
	Error  string `json:"error,omitempty"`
}

// journal writes lines from many goroutines, each at once: others follow it.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

func openJournal(name string) (*journal, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &journal{f: f}, nil
}

func (j *journal) write(l line) {
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // a struct of strings and numbers always encodes
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(1)
	}
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.f.Close()
}

type options struct {
	namesrv, topic, prefix, out string
	rate, workers, body         int
	lasts                       time.Duration
}

func main() {
	var o options
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: interop produce|consume --namesrv HOST:PORT --topic T --out FILE [--rate N --workers N --body BYTES --for D]")
		os.Exit(2)
	}
	fs := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	fs.StringVar(&o.namesrv, "namesrv", "127.0.0.1:9876", "name server")
	fs.StringVar(&o.topic, "topic", "ChaosTopic", "topic")
	fs.StringVar(&o.prefix, "prefix", "k", "prefix of keys")
	fs.StringVar(&o.out, "out", "interop.jsonl", "one outcome a line")
	fs.IntVar(&o.rate, "rate", 1000, "messages per second over all workers")
	fs.IntVar(&o.workers, "workers", 32, "concurrent senders")
	fs.IntVar(&o.body, "body", 256, "body bytes")
	fs.DurationVar(&o.lasts, "for", 10*time.Second, "how long to produce, or to consume at most")
	if err := fs.Parse(os.Args[2:]); err != nil {
		os.Exit(2)
	}
	rlog.SetLogLevel("fatal") // what fails is in the journal
	run := produce
	if os.Args[1] == "consume" {
		run = consume
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

// produce keeps workers busy at the rate until the time is over.
func produce(ctx context.Context, o options) error {
	j, err := openJournal(o.out)
	if err != nil {
		return err
	}
	p, err := rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{o.namesrv}), producer.WithGroupName("chaos-producers"),
		producer.WithRetry(2), producer.WithInstanceName(o.prefix))
	if err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	if err := p.Start(); err != nil {
		return fmt.Errorf("start producer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.lasts)
	defer cancel()
	tickets := make(chan int, o.workers)
	var wg sync.WaitGroup
	for w := range o.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range tickets {
				j.write(sendOne(p, o, w, n))
			}
		}()
	}
	issue(ctx, o.rate, tickets)
	close(tickets)
	wg.Wait()
	if err := p.Shutdown(); err != nil {
		return fmt.Errorf("shut down producer: %w", err)
	}
	return j.close()
}

// issue hands out message numbers at the rate; workers that are all busy hold it up.
func issue(ctx context.Context, rate int, tickets chan<- int) {
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		wait := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		select {
		case <-ctx.Done():
			return
		case tickets <- n:
		}
	}
}

// sendOne sends one message; whatever is not SEND_OK is unknown: the client
// retries inside, and an error of its last try says nothing about the others.
func sendOne(p rocketmq.Producer, o options, worker, n int) line {
	key := fmt.Sprintf("%s-%d", o.prefix, n)
	msg := primitive.NewMessage(o.topic, make([]byte, o.body)).WithKeys([]string{key})
	l := line{Kind: "send", Client: worker, Key: key, Status: "unknown", Invoke: time.Now().UnixNano()}
	res, err := p.SendSync(context.Background(), msg)
	l.Return = time.Now().UnixNano()
	switch {
	case err != nil:
		l.Error = err.Error()
	case res.Status != primitive.SendOK:
		l.Error = fmt.Sprintf("status %d", res.Status)
	default:
		l.Status, l.Offset = "done", res.QueueOffset
		l.Queue = fmt.Sprintf("%s/%s/%d", res.MessageQueue.BrokerName, o.topic, res.MessageQueue.QueueId)
	}
	return l
}

// consume records deliveries of a push consumer until it is stopped.
func consume(ctx context.Context, o options) error {
	j, err := openJournal(o.out)
	if err != nil {
		return err
	}
	c, err := rocketmq.NewPushConsumer(consumer.WithNameServer(primitive.NamesrvAddr{o.namesrv}), consumer.WithGroupName("chaos-consumers"),
		consumer.WithConsumerModel(consumer.Clustering), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithInstance(o.prefix))
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	err = c.Subscribe(o.topic, consumer.MessageSelector{}, func(_ context.Context, msgs ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		now := time.Now().UnixNano()
		for _, m := range msgs {
			j.write(line{Kind: "read", Client: 1000, Key: m.GetKeys(), Offset: m.QueueOffset, Invoke: now, Return: now, Status: "done",
				Queue: fmt.Sprintf("%s/%s/%d", m.Queue.BrokerName, m.Topic, m.Queue.QueueId)})
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("start consumer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.lasts)
	defer cancel()
	<-ctx.Done()
	if err := c.Shutdown(); err != nil {
		return fmt.Errorf("shut down consumer: %w", err)
	}
	return j.close()
}
