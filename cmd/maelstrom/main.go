// Command maelstrom is one node of a Maelstrom test: Lockstep's broker and
// controller behind Maelstrom's protocol on standard input and output.
package main

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"lockstep/node"
	"lockstep/node/host/maelstrom"
	"lockstep/node/host/maelstrom/rpc"
)

// flags are the settings of a node.
type flags struct {
	data           string
	scale          int
	answer         time.Duration
	answerRegister time.Duration
	level          string
}

func main() {
	if err := newCommand(os.Stdin, os.Stdout, os.Stderr).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "maelstrom: "+err.Error())
		os.Exit(node.ExitRefused)
	}
}

func newCommand(in io.Reader, out, report io.Writer) *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:   "maelstrom",
		Short: "Run a node of a Maelstrom test",
		Long: `Run one node of a Maelstrom test (https://github.com/jepsen-io/maelstrom): JSON
messages, one a line, on standard input and output. Each node holds a controller
and a broker of one group; everything between nodes goes through the network of
the test. Workloads, known by the requests that come: echo, unique-ids, broadcast,
kafka (replicated queues) and lin-kv (the controllers' committed state).

With Maelstrom, from its folder, and this program built as /tmp/node:
  ./maelstrom test -w kafka --bin /tmp/node --node-count 3 --rate 200 \
      --time-limit 60 --nemesis partition --latency 50 --latency-dist exponential
  ./maelstrom test -w lin-kv --bin /tmp/node --node-count 3 --concurrency 6n \
      --time-limit 60 --nemesis partition

What is given to a node follows two dashes: … -- --data /tmp/run1 --log-level debug

By hand, one line in, one line out:
  {"src":"c1","dest":"n0","body":{"type":"init","msg_id":1,"node_id":"n0","node_ids":["n0"]}}
  {"src":"c1","dest":"n0","body":{"type":"send","msg_id":2,"key":"7","msg":1}}
  {"src":"c1","dest":"n0","body":{"type":"poll","msg_id":3,"offsets":{"7":0}}}

Data: each node uses a folder named after itself inside --data. A node that was
killed and starts again with the same --data has everything it acknowledged.
Without --data the folder is made from the process that started the node, when that
began, and the working folder: a node restarted by the same harness finds its data,
the next run begins empty, and folders of harnesses that are gone are removed. Give
each run a folder of its own where one harness runs several tests in turn
(--test-count).

The node ends when standard input does. Standard error has the timers at the start
and then log lines; nothing but messages goes to standard output.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error { return f.run(in, out, report) },
	}
	d := maelstrom.DefaultProfile(1)
	c.Flags().StringVar(&f.data, "data", "", "`DIR`ectory of all nodes of the run; empty: derived from the harness process")
	c.Flags().IntVar(&f.scale, "scale", 1, "multiplies every timer but the answers'; above 1 for mean latencies above 100 ms")
	c.Flags().DurationVar(&f.answer, "answer", d.Answer, "kafka: an error is answered after so long; keep it below the client's 5s")
	c.Flags().DurationVar(&f.answerRegister, "answer-register", d.AnswerRegister, "lin-kv: the same; the client's limit is 10 times the mean latency, at least 1s")
	c.Flags().StringVar(&f.level, "log-level", "warn", "least level of log lines: debug, info, warn or error")
	return c
}

func (f *flags) run(in io.Reader, out, report io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return fmt.Errorf("--log-level %q: write debug, info, warn or error", f.level)
	}
	if f.scale < 1 || f.scale > 20 {
		return fmt.Errorf("--scale %d: 1 to 20", f.scale)
	}
	p := maelstrom.DefaultProfile(f.scale)
	p.Answer, p.AnswerRegister = f.answer, f.answerRegister
	if err := p.Validate(3); err != nil {
		return err
	}
	fmt.Fprintf(report, "timers: %v\n", p)
	n := rpc.NewNode()
	n.Stdin, n.Stdout = in, out
	n.Log = log.New(report, "maelstrom: ", log.Ltime|log.Lmicroseconds)
	return maelstrom.Run(maelstrom.Options{Node: n, Data: f.data, Profile: p,
		Log: slog.New(slog.NewTextHandler(report, &slog.HandlerOptions{Level: level}))})
}
