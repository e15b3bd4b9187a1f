package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/decide"
	"lockstep/internal/event"
)

// The text of a plan, one entry a line; '#' at the start of a word begins a
// comment.
//
//	lockstep plan 1
//	drill A3-master-crash
//	noise seed 42                     or: noise benign
//	option net.codec true
//	fault crash b1 at 12.5s for 3s
//	fault power-loss b1,b2 on Serving#1@b1 after 50ms disk 3 arg -1
//	fault cut b1,c1|b2,b3 at 10s for 5s            both ways between sides
//	fault cut b1>b2,b3 at 10s for 5s               that way only
//	fault cut ring:c1,c2,c3,c4,c5 at 10s
//	fault action - at 5s text "switch g1"
//	choose net.delay b1>b2/3/310/4 1500000         site, key, value
//	benign net.lost *                              the site's benign value
//	end                                            the last line: a plan without it was cut

// Format prints a plan; ParsePlan reads it back.
func (p *Plan) Format() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lockstep plan %d\n", PlanVersion)
	if p.Drill != "" {
		fmt.Fprintf(&b, "drill %s\n", quote(p.Drill))
	}
	if p.Benign {
		b.WriteString("noise benign\n")
	} else {
		fmt.Fprintf(&b, "noise seed %d\n", p.Seed)
	}
	for _, s := range p.Settings {
		fmt.Fprintf(&b, "option %s %s\n", quote(s.Name), quote(s.Value))
	}
	for _, f := range p.Faults {
		b.WriteString(FormatFault(f) + "\n")
	}
	for i := range p.Choices {
		b.WriteString(formatChoice(&p.Choices[i]) + "\n")
	}
	b.WriteString("end\n")
	return b.String()
}

// formatChoice prints an override.
func formatChoice(o *decide.Override) string {
	if o.Benign {
		return fmt.Sprintf("benign %s %s", quote(o.Site), quote(o.Keys.String()))
	}
	return fmt.Sprintf("choose %s %s %d", quote(o.Site), quote(o.Keys.String()), o.Value)
}

// FormatFault prints one fault as a plan has it.
func FormatFault(f *Fault) string {
	var b strings.Builder
	target := f.Target()
	if target == "" {
		target = "-"
	}
	fmt.Fprintf(&b, "fault %s %s", f.Kind, target)
	t := &f.When
	if t.Kind == event.None {
		fmt.Fprintf(&b, " at %s", time.Duration(t.At))
	} else {
		fmt.Fprintf(&b, " on %s#%d", t.Kind, t.K)
		if t.Node != "" {
			b.WriteString("@" + t.Node)
		}
		if t.Text != "" {
			b.WriteString(" saying " + quote(t.Text))
		}
	}
	if t.Delay > 0 {
		fmt.Fprintf(&b, " after %s", time.Duration(t.Delay))
	}
	if t.DiskStep > 0 {
		fmt.Fprintf(&b, " disk %d", t.DiskStep)
	}
	if f.For > 0 {
		fmt.Fprintf(&b, " for %s", time.Duration(f.For))
	}
	if f.Arg != 0 {
		fmt.Fprintf(&b, " arg %d", f.Arg)
	}
	if f.Text != "" {
		b.WriteString(" text " + quote(f.Text))
	}
	return b.String()
}

// quote quotes a word that a reader would split or take for something else.
func quote(s string) string {
	if s == "" || s == "-" || strings.ContainsAny(s, " \t\"#\\") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}

// maxPlanBytes and maxPlanLines bound what ParsePlan reads.
const (
	maxPlanBytes = 64 << 20
	maxPlanLines = 2_000_000
)

// ParsePlan reads a plan. Errors name the line and what was expected.
func ParsePlan(text string) (*Plan, error) {
	if len(text) > maxPlanBytes {
		return nil, fmt.Errorf("plan of %d bytes: at most %d", len(text), maxPlanBytes)
	}
	lines := strings.Split(text, "\n")
	if len(lines) > maxPlanLines {
		return nil, fmt.Errorf("plan of %d lines: at most %d", len(lines), maxPlanLines)
	}
	p, seen := &Plan{}, planSeen{}
	for i, line := range lines {
		words, err := split(line)
		if err == nil && len(words) > 0 {
			err = p.parseLine(words, &seen)
		}
		if err != nil {
			return nil, fmt.Errorf("plan line %d: %w", i+1, err)
		}
	}
	if !seen.head || !seen.noise {
		return nil, fmt.Errorf("plan lacks its %q or its \"noise\" line", "lockstep plan "+strconv.Itoa(PlanVersion))
	}
	if !seen.end {
		return nil, fmt.Errorf("plan lacks its last line, \"end\": it was cut, or is of an older version; if it is whole, add the line")
	}
	return p, nil
}

// planSeen are the lines a plan has exactly once.
type planSeen struct{ head, noise, end bool }

// parseLine reads one line that is not empty.
func (p *Plan) parseLine(words []string, seen *planSeen) (err error) {
	if !seen.head {
		if len(words) != 3 || words[0] != "lockstep" || words[1] != "plan" || words[2] != strconv.Itoa(PlanVersion) {
			return fmt.Errorf("want %q first", "lockstep plan "+strconv.Itoa(PlanVersion))
		}
		seen.head = true
		return nil
	}
	if seen.end {
		return fmt.Errorf("nothing may follow the end line")
	}
	rest := words[1:]
	switch words[0] {
	case "drill":
		if len(rest) != 1 {
			return fmt.Errorf("want: drill NAME")
		}
		p.Drill = rest[0]
	case "noise":
		if seen.noise {
			return fmt.Errorf("a second noise line")
		}
		seen.noise = true
		return p.parseNoise(rest)
	case "option":
		if len(rest) != 2 {
			return fmt.Errorf("want: option NAME VALUE")
		}
		p.Settings = append(p.Settings, Setting{rest[0], rest[1]})
	case "fault":
		f, err := parseFault(rest)
		if err != nil {
			return err
		}
		p.Faults = append(p.Faults, f)
	case "choose", "benign":
		return p.parseChoice(words[0] == "benign", rest)
	case "end":
		if len(rest) != 0 {
			return fmt.Errorf("want: end")
		}
		seen.end = true
	default:
		return fmt.Errorf("unknown entry %q: want drill, noise, option, fault, choose, benign or end", words[0])
	}
	return nil
}

// parseNoise reads "seed N" or "benign".
func (p *Plan) parseNoise(rest []string) (err error) {
	switch {
	case len(rest) == 1 && rest[0] == "benign":
		p.Benign = true
	case len(rest) == 2 && rest[0] == "seed":
		p.Seed, err = strconv.ParseUint(rest[1], 10, 64)
	default:
		err = fmt.Errorf("want: noise seed N, or: noise benign")
	}
	return err
}

// parseChoice reads SITE KEY VALUE, without the value for benign.
func (p *Plan) parseChoice(benign bool, rest []string) error {
	if benign && len(rest) != 2 || !benign && len(rest) != 3 {
		return fmt.Errorf("want: choose SITE KEY VALUE, or: benign SITE KEY")
	}
	keys, err := decide.ParsePattern(rest[1])
	if err != nil {
		return err
	}
	o := decide.Override{Site: rest[0], Keys: keys, Benign: benign}
	if !benign {
		if o.Value, err = strconv.ParseInt(rest[2], 10, 64); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	}
	p.Choices = append(p.Choices, o)
	return nil
}

// split cuts a line into words; "quoted words" keep their spaces.
func split(line string) (words []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' {
			return words, nil
		}
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("a quote is not closed: %s", line)
			}
			word, err := strconv.Unquote(q)
			if err != nil {
				return nil, fmt.Errorf("bad quoted word %s", q)
			}
			words, line = append(words, word), line[len(q):]
			continue
		}
		end := strings.IndexAny(line, " \t\r")
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, line[:end]), line[end:]
	}
}
