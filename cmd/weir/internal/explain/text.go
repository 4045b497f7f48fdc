package explain

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// WriteText writes a as text for people.
func (a *Answer) WriteText(w io.Writer) error {
	var b strings.Builder
	if a.Request.Domain != "" {
		fmt.Fprintf(&b, "bucket %s of %s", Printable(pairs(a.Request.Bucket)), Printable(a.Request.Domain))
	} else {
		fmt.Fprintf(&b, "%s %s%s", a.Request.Method, Printable(a.Request.Host), Printable(a.Request.Path))
	}
	if a.Request.ClientIP != "" {
		fmt.Fprintf(&b, " from %s", a.Request.ClientIP)
	}
	b.WriteString(": " + a.verdict() + "\n")
	if a.Unused {
		b.WriteString("  as if unused: the role read does not see the state of a key\n")
	}
	for _, p := range a.Policies {
		p.write(&b)
	}
	if d := a.Draft; d != nil {
		b.WriteString("with the draft: " + d.verdict() + "\n")
		for _, p := range d.Policies {
			p.write(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Answer) verdict() string {
	switch d := a.Denial; {
	case a.Verdict == Unlimited && a.Request.Domain != "":
		return "clients admit every request"
	case a.Verdict == Unlimited:
		return "no policy limits it"
	case a.Verdict == Assigned:
		return "clients decide by their parts of the limit"
	case a.Verdict == Undecided:
		return "undecided, the store is unavailable"
	case a.Verdict == Overloaded:
		return "refused, this process is overloaded"
	case d == nil && a.Delay > 0:
		return "admitted after " + a.Delay.String()
	case d == nil:
		return "admitted"
	case d.Never:
		return fmt.Sprintf("denied by %s with status %d, would never pass", d.Policy, d.Status)
	case d.Wait > 0:
		return fmt.Sprintf("delayed by %s for %s", d.Policy, d.RetryAfter)
	default:
		return fmt.Sprintf("denied by %s with status %d, would pass in %s", d.Policy, d.Status, d.RetryAfter)
	}
}

func (p *Policy) write(b *strings.Builder) {
	if !p.Matched {
		why := "does not match: " + p.Why
		switch p.Why {
		case "mode":
			why = "off"
		case "nginx.zone":
			why = "not decided: a request counts once in a zone, by the first matching policy"
		case "except":
			why = "does not apply to exempt requests"
		case "unlimited":
			why = "does not limit this key"
		}
		fmt.Fprintf(b, "  %s: %s\n", p.Name, why)
		return
	}
	fmt.Fprintf(b, "  %s: %s", p.Name, p.how())
	if p.Key != "" { // a bucket's limit of 0 has no state
		fmt.Fprintf(b, ", key %s, cost %d", Printable(p.Key), p.Cost)
	}
	if p.Count != "" {
		fmt.Fprintf(b, ", counts %s", p.Count)
	}
	b.WriteByte('\n')
	if p.Problem != "" {
		fmt.Fprintf(b, "    %s\n", Printable(p.Problem))
	}
	if p.Adjustment != "" {
		fmt.Fprintf(b, "    %s\n", Printable(p.Adjustment))
	}
	if p.Blocks {
		b.WriteString("    blocks the request\n")
	}
	for _, l := range p.Limits {
		l.write(b, p.Problem)
	}
}

// pairs returns the pairs of a bucket's id, in the order of their keys.
func pairs(id map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(id)) {
		all = append(all, key+"="+id[key])
	}
	return strings.Join(all, " ")
}

// how returns the mode of a policy in words.
func (p *Policy) how() string {
	switch {
	case p.Candidate:
		return "a candidate, in shadow"
	case p.Mode == "shadow":
		return "in shadow"
	case p.Percent > 0 && p.Enforced:
		return fmt.Sprintf("enforced, among the %d%% of keys", p.Percent)
	case p.Percent > 0:
		return fmt.Sprintf("in shadow, not among the %d%% of keys", p.Percent)
	}
	return "enforced"
}

func (l *Limit) write(b *strings.Builder, problem string) {
	if l.Shares != nil && l.Shares.Clients {
		fmt.Fprintf(b, "    %s\n", l.Limit)
		l.Shares.write(b)
		return
	}
	if l.RetryAfter == nil && !l.Never {
		fmt.Fprintf(b, "    %s: not decided\n", l.Limit)
		l.Shares.write(b)
		l.Region.write(b)
		return
	}
	fmt.Fprintf(b, "    %s: %d of %d left", l.Limit, l.Remaining, l.Capacity)
	if l.Debt > 0 {
		fmt.Fprintf(b, ", debt %d", l.Debt)
	}
	switch {
	case l.Never:
		b.WriteString(", denies: cost above the capacity")
	case !l.OK:
		fmt.Fprintf(b, ", denies: in %s", l.RetryAfter)
	case l.Delay > 0:
		fmt.Fprintf(b, ", admits after %s", l.Delay)
	default:
		b.WriteString(", admits")
	}
	if l.Borrowed {
		b.WriteString(" (borrowed)")
	}
	if l.Degraded != "" {
		fmt.Fprintf(b, " (decided without the store: %s)", l.Degraded)
	}
	if len(l.From) > 0 {
		fmt.Fprintf(b, " (carries over from %s)", strings.Join(l.From, ", "))
	}
	if l.Decides {
		b.WriteString(" <- decides")
	}
	b.WriteByte('\n')
	l.Shares.write(b)
	l.Region.write(b)
}

// String returns s in words, such as "1.5 s".
func (s Seconds) String() string {
	d := time.Duration(s)
	if d >= time.Minute {
		return (d + time.Second - 1).Truncate(time.Second).String() // rounded up, as all waits
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// Printable makes a client's text safe for a terminal.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
