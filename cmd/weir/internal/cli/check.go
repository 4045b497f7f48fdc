package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/edit"
	"github.com/floodweir/weir/cmd/weir/internal/run"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/weirfile"
)

// maxFile is the maximum number of bytes read from a file; a policy file is smaller.
const maxFile = 16 << 20

func checkCommand(w *app) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file and report every error",
		Long: "Read the policy file FILE (- is standard input) and print a summary, or every error\n" +
			"as file:line:column.\n\n" +
			"Exit codes: 0 valid, 1 invalid, 2 wrong usage or unreadable file.",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			f, _, err := w.readPolicies(args[0], asJSON)
			if err != nil {
				return err
			}
			if asJSON {
				return w.printJSON(checked(args[0], f))
			}
			for _, n := range f.Notes {
				fmt.Fprintln(w.stderr, n) // no prefix: editors parse file:line:column
			}
			_, err = io.WriteString(w.stdout, summary(args[0], f))
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// A checkResult is the result of weir check in JSON.
type checkResult struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Faults   []edit.Fault    `json:"faults"`
	Notes    []string        `json:"notes"`
	Policies []checkedPolicy `json:"policies"`
}

type checkedPolicy struct {
	Name    string   `json:"name"`
	Mode    string   `json:"mode"`
	Percent int      `json:"percent"`
	Key     []string `json:"key"`
	Limits  []string `json:"limits"`
}

// checked returns the result of a valid file.
func checked(name string, f *weirfile.File) checkResult {
	r := checkResult{File: name, Valid: true, Faults: []edit.Fault{}, Notes: append([]string{}, f.Notes...), Policies: []checkedPolicy{}}
	for _, p := range f.Policies.Policies() {
		c := p.Config()
		one := checkedPolicy{Name: c.Name, Mode: string(c.Mode), Percent: c.Percent, Key: []string{}, Limits: []string{}}
		for _, k := range c.Key {
			one.Key = append(one.Key, k.String())
		}
		for _, l := range c.Limits {
			one.Limits = append(one.Limits, l.String())
		}
		r.Policies = append(r.Policies, one)
	}
	return r
}

// complete reports the errors that weir serve would find in a valid file.
func complete(f *weirfile.File) error {
	if err := run.CheckFile(f); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

// readPolicies reads a policy file and its text. It prints every error of an invalid one,
// as weir check does.
func (w *app) readPolicies(name string, asJSON bool) (*weirfile.File, string, error) {
	data, err := w.read(name)
	if err != nil {
		return nil, "", &exit{exitUsage, err}
	}
	var f *weirfile.File
	switch {
	case name == "-":
		name = "stdin"
		f, err = weirfile.Parse(name, data)
	case len(weirfile.Includes(name)) > 0:
		f, err = weirfile.Load(name)
	default:
		f, err = weirfile.Parse(name, data)
	}
	if err == nil {
		err = complete(f)
	}
	if err != nil {
		if asJSON {
			if e := w.printJSON(checkResult{File: name, Faults: edit.Faults(err), Notes: []string{}, Policies: []checkedPolicy{}}); e != nil {
				return nil, "", e
			}
		} else {
			printFaults(w.stderr, err)
		}
		return nil, "", &exit{code: exitFailed}
	}
	return f, string(data), nil
}

// printFaults prints the lines of err without a prefix: editors parse file:line:column.
func printFaults(stderr io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, strings.TrimSuffix(line, "\n"))
	}
}

// read returns the bytes of a file, or of standard input for "-".
func (w *app) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(w.stdin, maxFile))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func summary(name string, f *weirfile.File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: OK\n", name)
	if f.Store != "" {
		fmt.Fprintf(&b, "store: %s\n", config.Redacted(f.Store))
	}
	regionsText(&b, f.Regions)
	for _, r := range f.Gateway.Routes {
		fmt.Fprintf(&b, "route: %s%s -> %s%s\n", r.Host, r.Path, r.Upstream.Redacted(), routeProtections(r.Protections))
	}
	for _, x := range f.Policies.Exceptions() {
		fmt.Fprintf(&b, "except:%s\n", exceptionText(x))
	}
	if s := f.System; s != nil {
		fmt.Fprintf(&b, "system: %s\n", systemText(s))
	}
	for _, p := range f.Policies.Policies() {
		c := p.Config()
		var limits, key []string
		switch {
		case c.Block:
			limits = []string{"blocked"}
		case c.Unlimited:
			limits = []string{"unlimited"}
		}
		for _, l := range c.Limits {
			limits = append(limits, l.String())
		}
		for _, k := range c.Key {
			key = append(key, k.String())
		}
		by := " by " + strings.Join(key, ", ")
		if c.Block && len(c.Overrides) == 0 { // for every key
			by = ""
		}
		fmt.Fprintf(&b, "policy: %s: %s%s%s", c.Name, strings.Join(limits, " and "), by, matchText(c.Match))
		for _, x := range c.Except {
			fmt.Fprintf(&b, ", except%s", exceptionText(x))
		}
		if more := nonDefaults(c); len(more) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(more, ", "))
		}
		b.WriteByte('\n')
		tenants(&b, c)
	}
	if f.Functions != nil {
		functions(&b, f.Functions)
	}
	return b.String()
}

// tenants prints the guaranteed minimum of each tenant.
func tenants(b *strings.Builder, c policy.Config) {
	weights, pool := int64(0), int64(0)
	for _, t := range c.Tenants {
		weights += t.Weight
		pool += t.Burst
	}
	for _, t := range c.Tenants {
		parent := c.Limits[0]
		period, _, _ := strings.Cut(strings.TrimPrefix(parent.String(), strconv.FormatInt(parent.Count(), 10)+"/"), " ")
		rate := strconv.FormatFloat(float64(parent.Count())*float64(t.Weight)/float64(weights), 'g', 6, 64)
		fmt.Fprintf(b, "  tenant: %s: at least %s/%s burst %d, borrows up to %d at once", strings.Join(t.Key, ", "), rate, period, t.Burst, parent.Capacity()-pool)
		if !t.Ceil.IsZero() {
			fmt.Fprintf(b, ", at most %s", t.Ceil)
		}
		b.WriteByte('\n')
	}
}

// functions prints the rules for functions.
func functions(b *strings.Builder, f *guard.Functions) {
	if f.Mode != "" && f.Mode != policy.Enforce {
		fmt.Fprintf(b, "functions: all %s\n", f.Mode)
	}
	rules := f.Rules
	if f.System != nil {
		rules = append([]guard.Rule{*f.System}, rules...)
	}
	for _, r := range rules {
		var what []string
		if r.Policy != nil {
			c := r.Policy.Config()
			for _, l := range c.Limits {
				what = append(what, l.String())
			}
			what = []string{strings.Join(what, " and ")}
			what = append(what, nonDefaults(c)...)
		}
		what = append(what, protections(r.Settings)...)
		if r.PerInstance {
			what = append(what, "per instance")
		}
		slices.Sort(what[min(1, len(what)):])
		fmt.Fprintf(b, "function: %s: %s\n", r.Name, strings.Join(what, ", "))
	}
}

// protections names the protections of a rule or a route.
func protections(s guard.Settings) (names []string) {
	say := func(there bool, name string, shadow func() bool) {
		if there && shadow() {
			name += " (shadow)"
		}
		if there {
			names = append(names, name)
		}
	}
	say(s.Adaptive != nil, "adaptive", func() bool { return s.Adaptive.Shadow })
	say(s.Breaker != nil, "breaker", func() bool { return s.Breaker.Shadow })
	say(s.Bulkhead != nil, "bulkhead", func() bool { return s.Bulkhead.Shadow })
	return names
}

func routeProtections(s guard.Settings) string {
	if names := protections(s); len(names) > 0 {
		return " with " + strings.Join(names, ", ")
	}
	return ""
}

// matchText describes which requests match; "" for all.
func matchText(m policy.Match) string {
	var b strings.Builder
	say := func(before string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(&b, " %s %s", before, strings.Join(list, " or "))
		}
	}
	say("for", m.Methods)
	say("at", m.Paths)
	say("of", m.Hosts)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		say("with "+name+":", m.Headers[name])
	}
	if m.Where != nil {
		say("where", []string{m.Where.String()})
	}
	return b.String()
}

// exceptionText describes which requests are exempt.
func exceptionText(x policy.Exception) string {
	text := matchText(policy.Match{Methods: x.Methods, Paths: x.Paths, Hosts: x.Hosts, Headers: x.Headers})
	for i, ip := range x.IPs {
		if i == 0 {
			text += " from"
		} else {
			text += " or"
		}
		text += " " + ip.String()
	}
	if x.Preflight {
		text += " for CORS preflight requests"
	}
	return text
}

// nonDefaults describes the fields that differ from their default.
func nonDefaults(c policy.Config) (more []string) {
	say := func(ok bool, format string, args ...any) {
		if ok {
			more = append(more, fmt.Sprintf(format, args...))
		}
	}
	say(c.Zone != "", "zone %s", c.Zone)
	say(c.Mode != policy.Enforce, "%s", c.Mode)
	say(c.Percent < 100, "%d%% of keys", c.Percent)
	if c.CostOf != nil && c.Settle.Meter == nil {
		say(true, "cost %s", c.CostOf)
	}
	say(c.CostOf == nil && c.Cost != 1, "cost %d", c.Cost)
	say(c.Settle.Header != "", "cost from the response header %s", c.Settle.Header)
	if m := c.Settle.Meter; m != nil {
		b := m.Config()
		input := "the bytes of the body and 1000"
		if b.MaxInput > 0 {
			input = fmt.Sprint(b.MaxInput)
		}
		bound := fmt.Sprintf("%s input and %d output tokens", input, b.MaxOutput)
		if b.Step > 0 && b.Exhausted != "allow" {
			bound += fmt.Sprintf("; streams, in steps of %d, by what the count of a step misses, such as hidden reasoning, and what is generated until the upstream is canceled", b.Step)
		}
		say(true, "in %s; exceeded by at most the excess of requests in flight over %s", b.Unit.Quota(), bound)
	}
	say(c.Settle.JSON != "", "cost from %s of the response", c.Settle.JSON)
	if c.Settle.Expr != nil {
		say(true, "cost %s", c.Settle.Expr)
	}
	say(c.Count != policy.CountAdmitted, "counts %s", c.Count)
	say(c.OnDenied.Status != http.StatusTooManyRequests, "status %d", c.OnDenied.Status)
	say(c.OnDenied.Redirect != "", "to %s", c.OnDenied.Redirect)
	say(c.OnDenied.Wait > 0, "waits up to %v", c.OnDenied.Wait)
	say(c.OnStoreError != policy.Local, "%s if the store fails", c.OnStoreError)
	say(c.EachRegion, "whole in each region")
	if s := c.Shares; s.Auto {
		say(true, "divided into shares of at most %d%%, for %v", cmp.Or(s.Largest, 100), cmp.Or(s.Lease, share.DefaultLease))
	}
	if len(c.Candidate) > 0 {
		var limits []string
		for _, l := range c.Candidate {
			limits = append(limits, l.String())
		}
		say(true, "candidate %s", strings.Join(limits, " and "))
	}
	say(len(c.Overrides) == 1, "1 override")
	say(len(c.Overrides) > 1, "%d overrides", len(c.Overrides))
	return more
}

// systemText describes the system rules that are set.
func systemText(s *weirfile.SystemRules) string {
	var rules []string
	for _, r := range []struct {
		name  string
		value float64
		unit  string
	}{{"cpu", float64(s.CPU), " %"}, {"memory", float64(s.Memory), " %"}, {"load", s.Load, ""}, {"inflight", float64(s.InFlight), ""}} {
		if r.value > 0 {
			rules = append(rules, fmt.Sprintf("%s %v%s", r.name, r.value, r.unit))
		}
	}
	for _, p := range s.Priorities {
		rules = append(rules, fmt.Sprintf("%s shed at %d", p.Name, p.ShedAt))
	}
	text := strings.Join(rules, ", ")
	if s.Shadow {
		text += " (shadow)"
	}
	return text
}
