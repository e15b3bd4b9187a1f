package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lockstep/internal/ha"
	"lockstep/node/wire"
)

func newStatus() *cobra.Command {
	var r remote
	var controllers string
	var groups []string
	c := &cobra.Command{Use: "status --controller ADDR", Short: "Show who is master of each broker group", Long: `Show the controllers' leader and, for each broker group, its master, epoch, in-sync
set and members, as the controllers have committed them. The groups are those the
name servers know, or the ones named by --group.`, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		addrs := splitAddrs(controllers)
		if len(addrs) == 0 {
			return refused(errors.New("no controller: give --controller HOST:PORT, an address for brokers"))
		}
		if len(groups) == 0 {
			var err error
			if groups, err = groupsOf(splitAddrs(r.namesrv), r.timeout); err != nil {
				return err
			}
		}
		return status(cmd.OutOrStdout(), addrs, groups, r.timeout)
	}}
	r.flags(c, 5*time.Second)
	c.Flags().StringVar(&controllers, "controller", "", "controllers, `ADDR`;ADDR (addresses for brokers)")
	c.Flags().StringSliceVar(&groups, "group", nil, "broker `GROUP`; may be repeated")
	return c
}

// groupsOf asks the name servers for the broker groups.
func groupsOf(namesrvs []string, timeout time.Duration) ([]string, error) {
	if len(namesrvs) == 0 {
		return nil, refused(errors.New("no group: give --group NAME, or --namesrv HOST:PORT to look them up"))
	}
	f, _, err := askAny(namesrvs, wire.ReqGetClusterInfo, nil, timeout)
	if err != nil {
		return nil, fmt.Errorf("ask the name servers for broker groups: %w", err)
	}
	var info wire.ClusterInfo
	if err := wire.UnmarshalBody(f.Body, &info); err != nil {
		return nil, fmt.Errorf("answer of the name server: %w", err)
	}
	var out []string
	for name := range info.BrokerAddrTable {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

func status(w io.Writer, controllers, groups []string, timeout time.Duration) error {
	f, at, err := askAny(controllers, wire.ReqGetControllerMetadata, nil, timeout)
	if err != nil {
		return fmt.Errorf("ask the controllers: %w", err)
	}
	var meta wire.ControllerMetadata
	if err := f.Header(&meta); err != nil {
		return fmt.Errorf("answer of controller %s: %w", at, err)
	}
	fmt.Fprintf(w, "controllers %s: leader %s at %s, term %d\n", meta.Group, orNone(meta.LeaderID), orNone(meta.LeaderAddress), meta.Term)
	if meta.LeaderAddress != "" { // the leader knows best; the others are asked when it is gone
		controllers = append([]string{meta.LeaderAddress}, without(controllers, meta.LeaderAddress)...)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tMASTER\tADDRESS\tEPOCH\tSET EPOCH\tIN SYNC\tMIN\tMEMBERS")
	var errs []error
	for _, g := range groups {
		info, set, err := replicaInfo(controllers, g, timeout)
		if err != nil {
			if a, ok := errors.AsType[*answerError](err); ok && a.code == wire.CodeBrokerMetadataNotExist {
				err = errors.New("the controllers know no such group: check its name; without --group all groups are shown")
			}
			errs = append(errs, fmt.Errorf("group %s: %w", g, err))
			continue
		}
		master := "none"
		if info.MasterBrokerID > 0 {
			master = fmt.Sprint(info.MasterBrokerID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%v\t%d\t%s\n", g, master, orNone(info.MasterAddress), info.MasterEpoch, set.SyncStateSetEpoch, set.SyncStateSet, info.MinInSync, memberIDs(info.Members))
	}
	errs = append(errs, table.Flush())
	return errors.Join(errs...)
}

// replicaInfo asks the controllers for what they have committed of a group.
func replicaInfo(controllers []string, group string, timeout time.Duration) (info wire.ReplicaInfoResponse, set wire.SyncStateSetBody, err error) {
	f, _, err := askAny(controllers, wire.ReqGetReplicaInfo, wire.ReplicaInfoRequest{BrokerName: group}, timeout)
	if err == nil {
		err = errors.Join(f.Header(&info), wire.UnmarshalBody(f.Body, &set))
	}
	return info, set, err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func memberIDs(ms wire.Members) string {
	var ids ha.IDs
	for _, m := range ms {
		ids = append(ids, m.Broker)
	}
	return fmt.Sprint(ids)
}

// without is the list without one address.
func without(addrs []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return a == one })
}

// askAny sends a request to one address after the other until one answers with
// success, and says which. A reason that several give is named once, with all of
// their addresses.
func askAny(addrs []string, code int32, header any, timeout time.Duration) (wire.Frame, string, error) {
	var reasons []error
	var who []string // by reason
	for _, a := range addrs {
		f, err := ask(a, code, header, timeout)
		if err == nil {
			return f, a, nil
		}
		if a, ok := errors.AsType[*answerError](err); ok && a.code == wire.CodeBrokerMetadataNotExist {
			return f, "", err // only the leader knows, and it has spoken
		}
		same := slices.IndexFunc(reasons, func(r error) bool { return r.Error() == err.Error() })
		if same >= 0 {
			who[same] += ", " + a
			continue
		}
		reasons, who = append(reasons, err), append(who, a)
	}
	for i, err := range reasons {
		reasons[i] = fmt.Errorf("%s: %w", who[i], err)
	}
	return wire.Frame{}, strings.Join(addrs, ";"), errors.Join(reasons...)
}

// answerError is an answer other than success.
type answerError struct {
	code   int32
	remark string
}

// Error names the code and the reason.
func (e *answerError) Error() string {
	return fmt.Sprintf("answered with code %d: %s", e.code, e.remark)
}

// wrongServerError is the answer of a server that does not know the request.
type wrongServerError struct {
	request int32
}

// Error says which kind of server it is not.
func (e *wrongServerError) Error() string {
	flag, kind := "--controller", "controller"
	if e.request == wire.ReqGetRoute || e.request == wire.ReqGetClusterInfo {
		flag, kind = "--namesrv", "name server"
	}
	return fmt.Sprintf("is no %s (it does not know request %d): give %s the address of one", kind, e.request, flag)
}

// ask is one request over a connection of its own.
func ask(addr string, code int32, header any, timeout time.Duration) (wire.Frame, error) {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return wire.Frame{}, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout)) // a fresh connection takes a deadline
	request := wire.NewRequest(code, 1, header, nil)
	wire.Seal(&request)
	out, err := wire.AppendFrame(nil, &request, wire.JSON)
	if err != nil {
		return wire.Frame{}, err
	}
	if _, err := conn.Write(out); err != nil {
		return wire.Frame{}, err
	}
	var in []byte
	d := wire.Decoder{Link: wire.Remoting}
	for {
		piece := make([]byte, 64<<10)
		k, err := conn.Read(piece)
		in = append(in, piece[:k]...)
		f, used, bad := d.DecodeCopy(in)
		switch {
		case bad != nil:
			return f, bad
		case used > 0 && f.Head.Code == wire.CodeRequestCodeNotSupported:
			return f, &wrongServerError{code}
		case used > 0 && f.Head.Code != wire.CodeSuccess:
			return f, &answerError{f.Head.Code, f.Head.Remark}
		case used > 0:
			return f, nil
		case err != nil:
			return f, err
		}
	}
}
