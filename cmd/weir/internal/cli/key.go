package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/explain"
)

// operation are the flags of the commands on keys.
type operation struct {
	admin, tokenFile string
	asJSON           bool

	body struct {
		Policy string   `json:"policy,omitempty"`
		Key    []string `json:"key,omitempty"`
		ID     string   `json:"id,omitempty"`
		Reason string   `json:"reason,omitempty"`
		Tokens int64    `json:"tokens,omitempty"`
		Limits []string `json:"limits,omitempty"`
		Until  string   `json:"until,omitempty"`
		For    string   `json:"for,omitempty"`
	}
}

const keyCodes = "Exit codes: 0 done, 1 not done, 2 wrong usage."

func keyCommand(w *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "See one key of a policy, grant it credit, reset, raise, freeze, block or lift it",
		Long: "See and change one key of a policy on all nodes, over the admin interface of one of them.\n\n" +
			"KEY has one value for each part of the policy's key; or give --id. Every change has a reason, and an entry\n" +
			"in the audit log (weir audit). nginx with weir edge on the same Redis applies raise, freeze and block too.",
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(showKey(w), listKeys(w))
	for _, a := range []struct{ name, short, example string }{
		{"credit", "Give tokens back to a key", "--tokens 10"},
		{"reset", "Delete the state of a key, so that it is as never used", ""},
		{"raise", "Give a key other limits until a time", "--limits 100/m --for 1h"},
		{"freeze", "Deny all requests of a key until it is lifted", ""},
		{"block", "Deny all requests of a key until a time", "--for 24h"},
		{"lift", "End the raise, freeze or block of a key", ""},
	} {
		c.AddCommand(changeKey(w, a.name, a.short, a.example))
	}
	return c
}

// flags adds the flags of all commands on keys.
func (o *operation) flags(c *cobra.Command) {
	adminFlags(c, &o.admin, &o.tokenFile)
	jsonFlag(c, &o.asJSON)
}

// keyArgs reads POLICY KEY….
func (o *operation) keyArgs(args []string) error {
	o.body.Policy, o.body.Key = args[0], args[1:]
	if (len(o.body.Key) == 0) == (o.body.ID == "") {
		return &exit{exitUsage, fmt.Errorf("key: KEY: got %d values, want one for each part of the policy's key, or --id", len(o.body.Key))}
	}
	return nil
}

func showKey(w *app) *cobra.Command {
	var o operation
	c := &cobra.Command{
		Use:   "show POLICY KEY...",
		Short: "Show the state of a key, without consuming tokens",
		Long: "Show the limits of a key, whether it is denied and until when, and who adjusted it. POLICY - is every policy\n" +
			"that the key fits.\n\nExit codes: 0 not denied, 1 denied by a policy, 2 not known or wrong usage.",
		Example: "  weir key show login 203.0.113.9\n  weir key show - 203.0.113.9 --json",
		Args:    usage(cobra.MinimumNArgs(1)),
	}
	o.flags(c)
	c.Flags().StringVar(&o.body.ID, "id", "", "`ID` of the key, instead of KEY")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.keyArgs(args); err != nil {
			return err
		}
		if o.body.Policy == "-" {
			o.body.Policy = ""
		}
		var all struct {
			Policies []keyStatus `json:"policies"`
		}
		if err := o.call(c.Context(), w, "key show", []string{"v1", "key"}, nil, o.body, &all); err != nil {
			return &exit{exitError, err}
		}
		denied := false
		for _, s := range all.Policies {
			denied = denied || s.Denied
			if !o.asJSON {
				s.write(w.stdout)
			}
		}
		if denied {
			return &exit{code: exitDenied}
		}
		return nil
	}
	return c
}

func changeKey(w *app, action, short, example string) *cobra.Command {
	var o operation
	c := &cobra.Command{
		Use:     action + " POLICY KEY... --reason TEXT",
		Short:   short,
		Long:    short + ", and write an audit entry. All nodes apply it within a second.\n\n" + keyCodes,
		Example: "  " + strings.TrimSpace("weir key "+action+" login 203.0.113.9 --reason 'ticket 812' "+example),
		Args:    usage(cobra.MinimumNArgs(1)),
	}
	o.flags(c)
	f := c.Flags()
	f.StringVar(&o.body.ID, "id", "", "`ID` of the key, instead of KEY")
	f.StringVar(&o.body.Reason, "reason", "", "`TEXT` with the reason, for the audit log")
	switch action {
	case "credit":
		f.Int64Var(&o.body.Tokens, "tokens", 0, "`NUMBER` of tokens to give back, at most up to the capacity")
	case "raise":
		f.StringArrayVar(&o.body.Limits, "limits", nil, "a `LIMIT` such as 100/m; may be repeated")
		fallthrough
	case "block":
		f.StringVar(&o.body.For, "for", "", "`DURATION` such as 90s, 1h or 24h")
		f.StringVar(&o.body.Until, "until", "", "`TIME` in RFC 3339, instead of --for")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.keyArgs(args); err != nil {
			return err
		}
		switch {
		case o.body.Reason == "":
			return &exit{exitUsage, fmt.Errorf("key %s: --reason: want the reason, for the audit log", action)}
		case action == "credit" && o.body.Tokens < 1:
			return &exit{exitUsage, fmt.Errorf("key credit: --tokens %d: want 1 or more", o.body.Tokens)}
		}
		var out struct {
			After keyStatus `json:"after"`
			Audit struct {
				ID int64 `json:"id"`
			} `json:"audit"`
			Notes        []string `json:"notes"`
			NotAppliedBy []string `json:"not_applied_by"`
		}
		if err := o.call(c.Context(), w, "key "+action, []string{"v1", "key", action}, nil, o.body, &out); err != nil {
			return err
		}
		for _, n := range out.Notes {
			fmt.Fprintf(w.stderr, "weir: warning: %s\n", n)
		}
		if len(out.NotAppliedBy) > 0 {
			fmt.Fprintf(w.stderr, "weir: warning: not applied by %s\n", strings.Join(out.NotAppliedBy, ", "))
		}
		if !o.asJSON {
			out.After.write(w.stdout)
			fmt.Fprintf(w.stdout, "audit entry %d\n", out.Audit.ID)
		}
		return nil
	}
	return c
}

func listKeys(w *app) *cobra.Command {
	var o operation
	c := &cobra.Command{
		Use: "list", Short: "List the keys that are raised, frozen or blocked", Args: usage(cobra.NoArgs), Aliases: []string{"adjustments"},
		Long: "List the keys that are raised, frozen or blocked, the newest first.\n\n" + keyCodes,
	}
	o.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var all struct {
			Adjustments []adjusted `json:"adjustments"`
		}
		if err := o.call(c.Context(), w, "key list", []string{"v1", "adjustments"}, nil, nil, &all); err != nil || o.asJSON {
			return err
		}
		t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "POLICY\tKEY\tKIND\tUNTIL\tBY\tREASON")
		for _, a := range all.Adjustments {
			until := "lifted"
			if a.Until != nil {
				until = *a.Until
			}
			kind := strings.TrimSpace(a.Kind + " " + strings.Join(a.Limits, ", "))
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", explain.Printable(a.Policy), shownKey(a.Key, a.ID), kind, until, explain.Printable(a.By), explain.Printable(a.Reason))
		}
		return t.Flush()
	}
	return c
}

func auditCommand(w *app) *cobra.Command {
	var o operation
	var policy, actor, action string
	var before int64
	var limit int
	c := &cobra.Command{
		Use: "audit", Short: "List who changed what, when and why", Args: usage(cobra.NoArgs),
		Long:    "List the entries of the audit log, the newest first. A result of - is not known: the process ended in between.\n\n" + keyCodes,
		Example: "  weir audit --policy login --limit 20\n  weir audit --before 812 --json",
	}
	o.flags(c)
	f := c.Flags()
	f.StringVar(&policy, "policy", "", "only entries of the policy `NAME`")
	f.StringVar(&actor, "actor", "", "only entries of the user `NAME`")
	f.StringVar(&action, "action", "", "only entries of an `ACTION` such as freeze or apply")
	f.Int64Var(&before, "before", 0, "only entries before the one with this `ID`")
	f.IntVar(&limit, "limit", 100, "the largest `NUMBER` of entries, at most 1000")
	c.RunE = func(c *cobra.Command, _ []string) error {
		q := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, value := range map[string]string{"policy": policy, "actor": actor, "action": action} {
			if value != "" {
				q.Set(name, value)
			}
		}
		if c.Flags().Changed("before") {
			q.Set("before", strconv.FormatInt(before, 10))
		}
		var all struct {
			Entries []entry `json:"entries"`
		}
		if err := o.call(c.Context(), w, "audit", []string{"v1", "audit"}, q, nil, &all); err != nil || o.asJSON {
			return err
		}
		t := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tTIME\tBY\tVIA\tACTION\tPOLICY\tKEY\tRESULT\tCHANGE\tREASON")
		for _, e := range all.Entries {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.At, explain.Printable(e.Actor), e.Via, e.Action, explain.Printable(e.Policy),
				shownKey(e.Key, e.KeyID), e.result(), explain.Printable(e.change()), explain.Printable(e.Reason))
		}
		return t.Flush()
	}
	return c
}

// call sends a request and reads the response into to. With --json it also prints it.
func (o *operation) call(ctx context.Context, w *app, command string, path []string, query url.Values, body, to any) error {
	q, err := w.adminRequest(command, o.admin, o.tokenFile)
	if err != nil {
		return &exit{exitUsage, err}
	}
	q.path, q.query, q.body = path, query, body
	ctx, done := w.wait(ctx, q.to.Redacted())
	defer done()
	data, err := q.send(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: %s: the response is not from Weir", command, q.to.Redacted())
	}
	if o.asJSON {
		return w.printJSON(json.RawMessage(data))
	}
	return nil
}

// An adjusted is an adjustment of /v1/adjustments.
type adjusted struct {
	ID, Policy string
	Key        []string
	Kind       string
	Limits     []string
	Until      *string
	Reason, By string
}

// An entry is an entry of /v1/audit.
type entry struct {
	ID                       int64
	At, Actor, Via, Action   string
	Policy, Reason, From, To string
	Key                      []string
	KeyID                    string `json:"key_id"`
	OK                       *bool
	Error                    string
}

func (e *entry) result() string {
	switch {
	case e.OK == nil:
		return "-"
	case *e.OK:
		return "ok"
	}
	return "failed"
}

func (e *entry) change() string {
	switch {
	case e.Error != "":
		return e.Error
	case e.From != "" && e.To != "":
		return e.From + " -> " + e.To
	}
	return cmp.Or(e.To, e.From)
}

// shownKey returns a key for people, or its ID if the user may not see it.
func shownKey(key []string, id string) string {
	if len(key) == 0 {
		return id
	}
	var all []string
	for _, k := range key {
		all = append(all, explain.Printable(cmp.Or(k, `""`)))
	}
	return strings.Join(all, ", ")
}

// A keyStatus is the state of a key under one policy.
type keyStatus struct {
	Policy, Mode, ID string
	Key              []string
	Enforced, Denied bool
	Until            *string
	Problem          string
	Adjustment       *adjusted
	States           []struct {
		Limit               string
		Capacity, Remaining int64
		RetryAfter          *float64 `json:"retry_after_ms"`
		ResetAfter          float64  `json:"reset_after_ms"`
		OK                  bool
	}
}

// write prints s for people.
func (s *keyStatus) write(out io.Writer) {
	verdict := "not denied"
	switch {
	case s.Denied && s.Until != nil:
		verdict = "denied until " + *s.Until
	case s.Denied:
		verdict = "denied"
	case s.Problem != "":
		verdict = s.Problem
	case !s.Enforced && s.Mode == "enforce" && len(s.States) == 0:
		verdict = "not limited"
	case !s.Enforced:
		verdict += ", the policy is not enforced for it"
	}
	fmt.Fprintf(out, "%s %s: %s\n", explain.Printable(s.Policy), shownKey(s.Key, s.ID), verdict)
	if a := s.Adjustment; a != nil {
		until := "until it is lifted"
		if a.Until != nil {
			until = "until " + *a.Until
		}
		fmt.Fprintf(out, "  %s %s, by %s: %s\n", a.Kind, until, explain.Printable(a.By), explain.Printable(a.Reason))
	}
	ms := func(ms float64) string { return explain.Seconds(ms * float64(time.Millisecond)).String() }
	for _, l := range s.States {
		fmt.Fprintf(out, "  %s: %d of %d left", l.Limit, l.Remaining, l.Capacity)
		switch {
		case l.OK && l.ResetAfter > 0:
			fmt.Fprintf(out, ", full in %s", ms(l.ResetAfter))
		case l.OK:
		case l.RetryAfter == nil:
			fmt.Fprint(out, ", denies: cost above the capacity")
		default:
			fmt.Fprintf(out, ", denies: next in %s", ms(*l.RetryAfter))
		}
		fmt.Fprintln(out)
	}
}
