package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/floodweir/weir/cmd/weir/internal/nodes"
	"github.com/floodweir/weir/guard/instances"
)

// A node is one node in the form of /v1/overview.
type node struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Program string    `json:"program"` // its version
	Self    bool      `json:"self"`
	Version int64     `json:"version"` // of the policies in force; 0: those of a file
	Store   nodeStore `json:"store"`
	Mode    string    `json:"mode"`
	SeenMS  int64     `json:"seen_ms"`
	Stale   bool      `json:"stale"`
	Problem string    `json:"problem"`
	Shares  int       `json:"shares"` // of limits, that it holds
}

type nodeStore struct {
	State string  `json:"state"`
	MS    float64 `json:"ms"`
}

func toNode(n *nodes.Node, newest int64) node {
	out := node{
		ID: n.ID, Name: n.Name, PID: n.PID, Program: n.Program, Self: n.Self, Version: n.Version,
		Store: nodeStore{n.Store, n.StoreMS}, Mode: n.Mode, SeenMS: n.Seen.Milliseconds(), Stale: n.Stale, Problem: n.Problem, Shares: n.Shares,
	}
	switch {
	case n.Stale:
		out.Problem = fmt.Sprintf("no data for %d s", int(n.Seen.Seconds()))
	case newest > 0 && n.Version > 0 && n.Version != newest:
		out.Problem = join(fmt.Sprintf("policies of version %d, want %d", n.Version, newest), n.Problem)
	}
	return out
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// live returns the number of nodes that are not stale.
func (s *state) live() (n int) {
	for i := range s.nodes {
		if !s.nodes[i].Stale {
			n++
		}
	}
	return n
}

// sortNodes puts nodes with a problem first.
func sortNodes(all []node) {
	slices.SortStableFunc(all, func(a, b node) int {
		return cmp.Or(cmp.Compare(severity(b.Stale, b.Mode, b.Problem), severity(a.Stale, a.Mode, a.Problem)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}

func sortPrograms(all []Program) {
	slices.SortStableFunc(all, func(a, b Program) int {
		return cmp.Or(cmp.Compare(severity(b.Stale, "", b.Problem), severity(a.Stale, "", a.Problem)), cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
	})
}

// NotAdjusting returns the programs that follow the published policies and do not apply the
// adjustments of single keys. With nginx it also returns every nginx, for an adjustment that it does
// not support.
func (l *Live) NotAdjusting(ctx context.Context, nginx bool) []string {
	names := []string{}
	for _, p := range l.current(ctx).programs {
		if !p.Stale && (!p.Adjusts && p.Version > 0 || nginx && p.Service == instances.Nginx) {
			names = append(names, fmt.Sprintf("%s (%s:%d)", p.Service, p.Host, p.PID))
		}
	}
	return names
}

func severity(stale bool, mode, problem string) int {
	switch {
	case stale:
		return 3
	case problem != "":
		return 2
	case mode != "" && mode != "normal":
		return 1
	}
	return 0
}
