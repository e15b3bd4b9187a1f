package admin

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/event"
	"lockstep/node"
)

// collector reads the host's counters and the machine's gauges at each scrape.
// Names begin with lockstep_; the machine's gauges keep their own names after it.
type collector struct{ p *Port }

// Describe sends nothing: the set of gauges is the machine's to choose.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends all numbers; a node that does not answer leaves its gauges out.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	n := c.p.node.Load()
	if n == nil {
		return
	}
	s := n.Stats()
	for _, m := range []struct {
		kind       prometheus.ValueType
		name, help string
		value      float64
	}{
		{prometheus.CounterValue, "loop_batches_total", "Batches of facts.", float64(s.Batches)},
		{prometheus.CounterValue, "loop_facts_total", "Facts told to the machine.", float64(s.Facts)},
		{prometheus.CounterValue, "loop_busy_seconds_total", "Time spent in batches.", float64(s.BusyNanos) / 1e9},
		{prometheus.GaugeValue, "loop_slowest_batch_seconds", "Longest batch so far; the lease's margin must cover it.", float64(s.SlowestNanos) / 1e9},
		{prometheus.CounterValue, "received_bytes_total", "Bytes read from sessions.", float64(s.BytesIn)},
		{prometheus.CounterValue, "sent_bytes_total", "Bytes written to sessions.", float64(s.BytesOut)},
		{prometheus.CounterValue, "writes_total", "Writes to sessions; frames are coalesced.", float64(s.Writes)},
		{prometheus.GaugeValue, "unsent_bytes", "Bytes that wait to be written to sessions.", float64(s.Waiting)},
		{prometheus.GaugeValue, "sessions", "Open sessions.", float64(s.Sessions)},
		{prometheus.CounterValue, "sessions_rejected_total", "Sessions closed for bytes that are no frame.", float64(s.Rejected)},
		{prometheus.CounterValue, "sessions_refused_total", "Connections closed because there were too many.", float64(s.Refused)},
		{prometheus.CounterValue, "answers_withheld_total", "Acknowledgements not sent because the lease ended while the batch was under way.", float64(s.Withheld)},
		{prometheus.CounterValue, "sessions_slow_total", "Sessions closed because they did not drain.", float64(s.Slow)},
	} {
		send(out, m.kind, m.name, m.help, m.value, "")
	}
	n.Events(func(k event.Kind, count int64) {
		send(out, prometheus.CounterValue, "events_total", "Events by kind.", float64(count), k.String())
	})
	c.gauges(out)
}

func (c *collector) gauges(out chan<- prometheus.Metric) {
	type gauge struct {
		name  string
		value float64
	}
	got := make(chan []gauge, 1) // the loop may run it after we gave up
	err := c.p.ask(context.Background(), func(m node.Machine) {
		var gs []gauge
		m.Gauges(func(name string, v float64) { gs = append(gs, gauge{name, v}) })
		got <- gs
	})
	if err != nil {
		return // /livez says so
	}
	for _, g := range <-got {
		send(out, prometheus.GaugeValue, g.name, "Of the machine: "+g.name+".", g.value, "")
	}
}

// send sends one number, with the label kind when it is not empty.
func send(out chan<- prometheus.Metric, t prometheus.ValueType, name, help string, v float64, kind string) {
	var keys, values []string
	if kind != "" {
		keys, values = []string{"kind"}, []string{kind}
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("lockstep_"+name, help, keys, nil), t, v, values...)
}
