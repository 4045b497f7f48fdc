package suggest

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
)

// WritePolicies writes a policy file, with what the limits affect as comments.
func (s *Suggestion) WritePolicies(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# From %d requests of %d clients, of which %d are active.\npolicies:\n", s.Requests, s.Clients, s.Active)
	for i := range s.Policies {
		p := &s.Policies[i]
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprint(t, "  # percentile\tlimit\tclients above\ttheir requests\tgood clients\n")
		for _, l := range p.Levels {
			fmt.Fprintf(t, "  # %s\t%s\t%d\t%d\t%d\n", l.Name, strings.Join(l.Limits, ", "), l.Clients, l.Requests, l.Good)
		}
		_ = t.Flush() // to memory
		for _, a := range p.Abusers {
			fmt.Fprintf(&b, "  # abuser %s: %d requests, %s\n", name(a.Client), a.Requests, reasonText(a.Reasons))
		}
		fmt.Fprintf(&b, "  - name: %s\n", p.Name)
		if len(p.Paths) > 0 {
			fmt.Fprintf(&b, "    match: { paths: [%q], methods: [%s] }\n", p.Paths[0], strings.Join(p.Methods, ", "))
		}
		fmt.Fprintf(&b, "    key: [client.ip]\n    limits: [%s]\n", quoted(p.Limits))
		if len(p.Overrides) > 0 {
			b.WriteString("    overrides: # above the limit, without harm: one and a half times their use\n")
		}
		for _, o := range p.Overrides {
			shared := ""
			if o.Agents >= manyAgents {
				shared = fmt.Sprintf(" # about %d user agents: perhaps a shared address. A cookie or header in the key separates users", o.Agents)
			}
			fmt.Fprintf(&b, "      - { key: [%q], limits: [%s] }%s\n", name(o.Client), quoted(o.Limits), shared)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func quoted(limits []string) string { return `"` + strings.Join(limits, `", "`) + `"` }

// name returns an address, or a prefix of IPv6.
func name(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func reasonText(reasons []Reason) string {
	var names []string
	for _, r := range reasons {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
