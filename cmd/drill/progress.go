package main

import (
	"fmt"
	"io"
	"time"
)

// progress tells how far a sweep is, at most once in progressEvery.
type progress struct {
	w     io.Writer
	total int
	lasts time.Duration
	done  int
	began time.Time
	last  time.Time
}

const progressEvery = 5 * time.Second

func newProgress(w io.Writer, total int, lasts time.Duration) *progress {
	now := time.Now()
	return &progress{w: w, total: total, lasts: lasts, began: now, last: now}
}

func (p *progress) step(failed int) {
	p.done++
	now := time.Now()
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	ran := now.Sub(p.began)
	rate := float64(p.done) / ran.Seconds()
	if p.total > 0 {
		left := time.Duration(float64(p.total-p.done) / rate * float64(time.Second))
		fmt.Fprintf(p.w, "%d of %d runs, %d failed, %.1f runs/s, about %v left\n", p.done, p.total, failed, rate, left.Round(time.Second))
		return
	}
	fmt.Fprintf(p.w, "%d runs, %d failed, %.1f runs/s, %v left\n", p.done, failed, rate, (p.lasts - ran).Round(time.Second))
}
