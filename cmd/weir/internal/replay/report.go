package replay

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/plot"
)

// A Report has the results of a replay.
type Report struct {
	Format       string          `json:"format"`
	Log          accesslog.Stats `json:"log"`
	Skipped      int             `json:"skipped"`
	Late         int             `json:"late"` // out of order by more than a minute, left out
	Replayed     int             `json:"replayed"`
	Log429       int             `json:"status_429"`
	WholeSeconds bool            `json:"whole_seconds"`
	From         time.Time       `json:"from"`
	Until        time.Time       `json:"until"`
	Sides        []SideReport    `json:"files"`
}

// A SideReport has the results of one policy file.
type SideReport struct {
	Name string `json:"file"`

	// Spacings has one result, or with whole seconds two: all requests at the start of their
	// second, and evenly spaced.
	Spacings []Spacing `json:"results"`

	Slot        float64      `json:"slot_seconds"` // of the series
	Missing     []Missing    `json:"missing,omitempty"`
	Differences []Difference `json:"differences,omitempty"` // from the status 429 of the log: the first 100
}

// A Spacing has the results of one run.
type Spacing struct {
	Counts
	Policies     []PolicyCounts `json:"policies"`
	Top          []Client       `json:"top_denied"`
	Offered      []float64      `json:"offered"`
	DeniedSeries []float64      `json:"denied_series"`
}

// Counts are the numbers of requests by outcome.
type Counts struct {
	Requests     int  `json:"requests"`
	Denied       int  `json:"denied"`
	Delayed      int  `json:"delayed"`
	Undecided    int  `json:"undecided"`
	Clients      int  `json:"clients_denied"`
	OtherClients int  `json:"denied_beyond_clients"` // denials of clients beyond the first 100,000
	Methods      int  `json:"denied_head_options"`
	Static       int  `json:"denied_static"`
	Good         Good `json:"good"`
	Both         int  `json:"denied_in_both"` // in the log with status 429, and here
	OnlyLog      int  `json:"denied_only_in_log"`
	OnlyReplay   int  `json:"denied_only_here"`
}

// Good has the requests of clients that are listed as good.
type Good struct {
	Requests int `json:"requests"`
	Denied   int `json:"denied"`
}

// PolicyCounts are the numbers of requests of one policy.
type PolicyCounts struct {
	Name     string `json:"policy"`
	Requests int    `json:"requests"`
	Denied   int    `json:"denied"`
	Shadow   int    `json:"shadow_denied"` // by a candidate or in shadow mode
}

// A Client is an address with denials.
type Client struct {
	Address netip.Addr `json:"client"`
	Denied  int        `json:"denied"`
	Agents  int        `json:"user_agents"` // at most 8
	First   time.Time  `json:"first"`
	Last    time.Time  `json:"last"`
	Good    bool       `json:"good"`
}

// Missing is a value that policies read and the log does not have.
type Missing struct {
	What     string `json:"what"`
	Requests int    `json:"requests"`
}

// A Difference is a request that only the log or only the replay denies.
type Difference struct {
	At     time.Time  `json:"at"`
	Client netip.Addr `json:"client"`
	Method string     `json:"method"`
	Path   string     `json:"path"`
	Log    int        `json:"status"`
	Policy string     `json:"policy,omitempty"` // that denies; "" if only the log does
}

// span returns a count of all spacings: "5", or "3 to 5".
func (s *SideReport) span(of func(*Counts) int) string {
	least, most := of(&s.Spacings[0].Counts), of(&s.Spacings[0].Counts)
	for i := range s.Spacings {
		v := of(&s.Spacings[i].Counts)
		least, most = min(least, v), max(most, v)
	}
	return between(least, most)
}

func between(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// A Row is one line of the overview.
type Row struct {
	Name   string
	Values []string // of each side
}

// Rows returns the overview.
func (r *Report) Rows() (rows []Row) {
	add := func(name string, of func(*Counts) int) {
		row := Row{Name: name}
		some := false
		for i := range r.Sides {
			v := r.Sides[i].span(of)
			some = some || v != "0"
			row.Values = append(row.Values, v)
		}
		if some || name == "denied" {
			rows = append(rows, row)
		}
	}
	add("requests", func(c *Counts) int { return c.Requests })
	add("denied", func(c *Counts) int { return c.Denied })
	add("delayed", func(c *Counts) int { return c.Delayed })
	add("clients denied", func(c *Counts) int { return c.Clients })
	add("denied HEAD and OPTIONS", func(c *Counts) int { return c.Methods })
	add("denied static files", func(c *Counts) int { return c.Static })
	add("requests of good clients", func(c *Counts) int { return c.Good.Requests })
	add("denied of good clients", func(c *Counts) int { return c.Good.Denied })
	if r.Log429 > 0 {
		add("429 in log and here", func(c *Counts) int { return c.Both })
		add("429 only in log", func(c *Counts) int { return c.OnlyLog })
		add("denied only here", func(c *Counts) int { return c.OnlyReplay })
	}
	return rows
}

// PolicyRow is one policy of one side.
type PolicyRow struct {
	File, Policy, Requests, Denied, Shadow string
}

// Policies returns the policies of all sides.
func (r *Report) Policies() (rows []PolicyRow) {
	for i := range r.Sides {
		s := &r.Sides[i]
		for _, p := range s.Spacings[0].Policies {
			least, most := p, p
			for _, other := range s.Spacings {
				for _, q := range other.Policies {
					if q.Name == p.Name {
						least.Denied, most.Denied = min(least.Denied, q.Denied), max(most.Denied, q.Denied)
						least.Shadow, most.Shadow = min(least.Shadow, q.Shadow), max(most.Shadow, q.Shadow)
					}
				}
			}
			rows = append(rows, PolicyRow{s.Name, p.Name, fmt.Sprint(p.Requests), between(least.Denied, most.Denied), between(least.Shadow, most.Shadow)})
		}
	}
	return rows
}

// Notes returns what limits the result.
func (r *Report) Notes() (notes []string) {
	if r.WholeSeconds {
		notes = append(notes, "The times of the log are whole seconds: a range is from all requests at the start of their second, and evenly spaced.")
	}
	if r.Log429 > 0 {
		notes = append(notes, fmt.Sprintf("%d requests of the log have status 429: without these denials, clients might have sent fewer retries or more requests.", r.Log429))
	}
	if r.Log.Rejected > 0 {
		notes = append(notes, fmt.Sprintf("%d lines do not have the format, such as %s.", r.Log.Rejected, r.Log.Example))
	}
	if r.Late > 0 {
		notes = append(notes, fmt.Sprintf("%d lines came more than a minute late and are left out.", r.Late))
	}
	for _, s := range r.Sides {
		for _, m := range s.Missing {
			notes = append(notes, fmt.Sprintf("%s: policies read the %s, which the log does not have for %d requests: they share one bucket.", s.Name, m.What, m.Requests))
		}
	}
	return notes
}

// Charts returns the load and the denials over time, of each side.
func (r *Report) Charts() (all []plot.Chart) {
	for i := range r.Sides {
		s := &r.Sides[i]
		v := s.Spacings[0]
		c := plot.Chart{
			Title: s.Name, Note: s.span(func(c *Counts) int { return c.Denied }) + " denied", Unit: "requests/s",
			Labels: [2]string{r.From.Format(time.DateTime), r.Until.Format(time.TimeOnly)},
		}
		for _, one := range []plot.Series{{Name: "offered", Values: v.Offered}, {Name: "denied", Values: v.DeniedSeries}} {
			rate := make([]float64, max(2, len(one.Values)))
			for k, n := range one.Values {
				rate[k] = n / s.Slot
			}
			c.Series = append(c.Series, plot.Series{Name: one.Name, Values: rate})
		}
		all = append(all, c)
	}
	return all
}

// Title describes the log.
func (r *Report) Title() string {
	return fmt.Sprintf("%d requests from %s to %s UTC, format %s, %d lines, %d skipped",
		r.Replayed, r.From.Format(time.DateTime), r.Until.Format(time.DateTime), r.Format, r.Log.Lines, r.Skipped)
}

// WriteText writes the report with top clients and top differences, and with plots.
func (r *Report) WriteText(w io.Writer, top int, plots bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Title())
	for _, n := range r.Notes() {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\n")
	for i := range r.Sides {
		fmt.Fprintf(t, "\t%s", r.Sides[i].Name)
	}
	for _, row := range r.Rows() {
		fmt.Fprintf(t, "\n%s\t%s", row.Name, strings.Join(row.Values, "\t"))
	}
	_ = t.Flush() // to memory
	t = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\n\nfile\tpolicy\trequests\tdenied\tshadow-denied\n")
	for _, p := range r.Policies() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", p.File, p.Policy, p.Requests, p.Denied, p.Shadow)
	}
	_ = t.Flush()
	for i := range r.Sides {
		r.Sides[i].writeClients(&b, top)
	}
	if plots {
		for _, c := range r.Charts() {
			b.WriteString("\n")
			if err := c.Text(&b, 78); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeClients writes the clients with most denials, and differences from the log.
func (s *SideReport) writeClients(b *strings.Builder, top int) {
	clients := s.Spacings[0].Top
	clients = clients[:min(top, len(clients))]
	if len(clients) > 0 {
		fmt.Fprintf(b, "\nmost denied by %s:\n", s.Name)
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprint(t, "client\tdenied\tfirst\tlast\tuser agents\n")
		for _, c := range clients {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", c.Name(), c.Denied, c.First.Format(time.DateTime), c.Last.Format(time.DateTime), c.AgentText())
		}
		_ = t.Flush()
	}
	if c := s.Spacings[0].Counts; c.Both == 0 && c.OnlyLog == 0 {
		return // the log has no denials to compare with
	}
	differences := s.Differences[:min(top, len(s.Differences))]
	if len(differences) > 0 {
		fmt.Fprintf(b, "\ndifferent in the log and by %s:\n", s.Name)
	}
	for _, d := range differences {
		fmt.Fprintf(b, "%s %s %s %.60s: log %d, %s\n", d.At.Format("2006-01-02 15:04:05.000000"), d.Client, d.Method, d.Path, d.Log, d.Here())
	}
}

// Name returns the address, marked if it is listed as good.
func (c *Client) Name() string {
	switch {
	case !c.Address.IsValid():
		return "unknown"
	case c.Good:
		return c.Address.String() + " (good)"
	}
	return c.Address.String()
}

// AgentText returns the number of user agents. Many suggest several users of one address.
func (c *Client) AgentText() string {
	if c.Agents == maxAgents {
		return fmt.Sprintf("%d or more: perhaps a shared address", maxAgents)
	}
	return fmt.Sprint(c.Agents)
}

// Here returns the decision of the replay.
func (d *Difference) Here() string {
	if d.Policy == "" {
		return "here admitted"
	}
	return "here denied by " + d.Policy
}
