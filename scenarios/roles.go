package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/event"
	"lockstep/sim"
)

// Roles that targets of Strike and Sever may name, resolved when the entry fires;
// a is the group's letter:
//
//	@master/a      the committed master         @slave/a/k   the k-th other member of its set, then other replicas
//	@slaves/a      all replicas but the master  @brokers/a   all replicas
//	@leader        the controllers' leader      @followers   the other controllers
//	@follower/k    the k-th of them             @controllers, @namesrvs, @producers, @watchers, @clients
//	@rest          in a network fault: every node that the other side does not name
func (r *Run) resolve(target string) []string {
	if !strings.HasPrefix(target, "@") {
		return []string{target}
	}
	parts := strings.Split(target[1:], "/")
	switch parts[0] {
	case "master", "slave", "slaves", "brokers":
		return r.resolveBroker(parts)
	case "leader", "follower", "followers", "controllers":
		return r.resolveController(parts)
	case "namesrvs":
		return names(r.Setup.Namesrvs, NamesrvNode)
	case "producers":
		return names(r.Setup.Clients, ProducerNode)
	case "watchers":
		return names(watchers, WatcherNode)
	case "clients":
		return append(names(r.Setup.Clients, ProducerNode), names(watchers, WatcherNode)...)
	}
	return nil
}

func names(n int, of func(int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

func (r *Run) resolveBroker(parts []string) []string {
	g := int(parts[1][0] - 'a')
	if g >= r.Setup.Groups {
		return nil
	}
	rec := r.Truth.refresh(GroupName(g))
	master := r.Truth.Node(GroupName(g), rec.Master)
	var others []string
	for i := range r.Setup.Replicas { // members of the set first
		if n := BrokerNode(g, i); n != master && rec.Set.Has(r.Truth.ID(n)) {
			others = append(others, n)
		}
	}
	for i := range r.Setup.Replicas {
		if n := BrokerNode(g, i); n != master && !slices.Contains(others, n) {
			others = append(others, n)
		}
	}
	switch parts[0] {
	case "master":
		return nonEmpty(master)
	case "slaves":
		return others
	case "slave":
		return kth(others, parts)
	}
	return append(nonEmpty(master), others...)
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// kth picks by the last part of a role's path; nothing when there are fewer.
func kth(list []string, parts []string) []string {
	k, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || k >= len(list) {
		return nil
	}
	return list[k : k+1]
}

func (r *Run) resolveController(parts []string) []string {
	leader := ""
	for i := range r.Judge.Events {
		if e := &r.Judge.Events[i]; e.Kind == event.LeaderChanged && e.Broker > 0 {
			leader = ControllerNode(int(e.Broker) - 1)
		}
	}
	var followers []string
	for i := range r.Setup.Controllers {
		if n := ControllerNode(i); n != leader {
			followers = append(followers, n)
		}
	}
	switch parts[0] {
	case "leader":
		return nonEmpty(leader)
	case "followers":
		return followers
	case "follower":
		return kth(followers, parts)
	}
	return append(nonEmpty(leader), followers...)
}

// handleActions registers what the plan's role entries do: each injects the plain
// fault with the nodes that play the roles when it fires.
func (r *Run) handleActions() {
	for _, f := range r.Plan.Faults {
		if f.Kind == sim.Action && strings.HasPrefix(f.Text, actPrefix) {
			r.World.Handle(f.Text, r.actAs)
		}
	}
}

func (r *Run) actAs(f *sim.Fault) {
	kind, targets, _ := strings.Cut(strings.TrimPrefix(f.Text, actPrefix), " ")
	act := &sim.Fault{Kind: sim.FaultKind(kind), When: sim.Trigger{At: r.World.Now()}, For: f.For, Arg: f.Arg}
	if act.Kind.Network() {
		act.Shape = sim.Split
		sep := "|"
		if strings.Contains(targets, ">") {
			act.Shape, sep = sim.Away, ">"
		}
		var sides [][]string
		for _, side := range strings.Split(targets, sep) {
			sides = append(sides, strings.Split(side, ","))
		}
		for i := range sides {
			act.Sides = append(act.Sides, r.side(sides, i))
		}
	} else {
		for _, t := range strings.Split(targets, ",") {
			for _, n := range r.resolve(t) { // who plays two of the roles is struck once
				if !slices.Contains(act.Nodes, n) {
					act.Nodes = append(act.Nodes, n)
				}
			}
		}
		if len(act.Nodes) == 0 && r.Drill.Vacant {
			return
		}
	}
	if err := r.World.Inject(act); err != nil {
		r.fail("plan", "stale", "%s: %v", f.Text, err)
	}
}

// side resolves one side of a network fault; @rest is what no other side names.
func (r *Run) side(sides [][]string, i int) []string {
	var out []string
	for _, t := range sides[i] {
		if t != "@rest" {
			out = append(out, r.resolve(t)...)
		}
	}
	if !slices.Contains(sides[i], "@rest") {
		return out
	}
	named := slices.Clone(out)
	for k := range sides {
		if k != i {
			named = append(named, r.side(sides, k)...)
		}
	}
	for _, n := range r.nodes {
		if !slices.Contains(named, n) {
			out = append(out, n)
		}
	}
	return out
}
