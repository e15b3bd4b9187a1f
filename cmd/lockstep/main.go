// Command lockstep is the product: the daemons of a RocketMQ-compatible cluster
// (namesrv, controller, broker), a whole cluster on one machine (up), and small
// tools that speak to a cluster (send, consume, status).
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/node"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// exitError carries the exit code of an error.
type exitError struct {
	code int
	err  error
}

// Error is the error's text.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the error itself.
func (e *exitError) Unwrap() error { return e.err }

// refused marks what the operator must change before a start can succeed.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{node.ExitRefused, err}
}

// run executes one command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return node.ExitClean
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{node.ExitRefused, err} // cobra's own: the command line is wrong
	}
	if text := e.Error(); text != "" {
		fmt.Fprintln(stderr, "lockstep: "+strings.ReplaceAll(text, "\n", "\nlockstep: "))
	}
	return e.code
}

// logging are the flags of every command that logs.
type logging struct{ format, level string }

// logger makes the command's logger; usual is the level when none was asked for.
func (l *logging) logger(w io.Writer, usual slog.Level) (*slog.Logger, error) {
	level := usual
	if l.level != "" {
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, refused(fmt.Errorf("--log-level %q: write debug, info, warn or error", l.level))
		}
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, refused(fmt.Errorf("--log-format %q: write text or json", l.format))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockstep",
		Short: "A highly available message broker that RocketMQ clients can use as it is",
		Long: `Lockstep is a highly available message broker. RocketMQ clients use it as it is.

A cluster has three kinds of daemons:
  controller  three or five of them agree who is master of each broker group
  namesrv     tells clients where topics live; they are independent of each other
  broker      keeps messages; the brokers of a group hold copies of one log

Try it on this machine:
  lockstep up                                      start a cluster of seven processes
  lockstep send --namesrv ADDR --topic T hello     send a message
  lockstep consume --namesrv ADDR --topic T        read it back

Exit codes: 0 stopped as asked, 1 something failed, 64 the configuration or the
store cannot be used (the message says what to change), 70 the disk failed. Do
not restart automatically after 64 and 70.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	l := &logging{}
	root.PersistentFlags().StringVar(&l.format, "log-format", "text", "format of log lines on stderr: text or json")
	root.PersistentFlags().StringVar(&l.level, "log-level", "", "least level of log lines: debug, info, warn or error (daemons info, tools warn)")
	root.AddGroup(&cobra.Group{ID: "daemons", Title: "Daemons:"}, &cobra.Group{ID: "tools", Title: "Tools:"})
	for _, c := range []*cobra.Command{newNamesrv(l), newController(l), newBroker(l)} {
		c.GroupID = "daemons"
		root.AddCommand(failing(c))
	}
	for _, c := range []*cobra.Command{newUp(l), newSend(l), newConsume(l), newStatus()} {
		c.GroupID = "tools"
		root.AddCommand(failing(c))
	}
	return root
}

// failing gives a command's own errors the exit code of a failure; what cobra
// finds wrong with the command line before it runs keeps that of a refusal.
func failing(c *cobra.Command) *cobra.Command {
	inner := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := inner(cmd, args)
		var e *exitError
		if err != nil && !errors.As(err, &e) {
			err = &exitError{node.ExitFailed, err}
		}
		return err
	}
	return c
}
