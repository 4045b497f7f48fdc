package explain

import (
	"context"
	"fmt"
	"strings"

	"github.com/floodweir/weir"
)

// A RegionOf returns how a region divides a limit of a key with others; nil if they do not divide it.
type RegionOf func(ctx context.Context, key string, l weir.Limit) *Region

// A Region describes the part of a limit that a region has.
type Region struct {
	Name  string `json:"name"`
	Part  int    `json:"part"`            // its own part, in percent
	Limit string `json:"limit,omitempty"` // of that part
	Bound int    `json:"bound"`           // the most that it may admit now, in percent

	// Rest is the part that all regions share, in percent, and RestLimit its limit. Lag is the time of
	// a call of the global store. Shares are the parts of processes; nil for a rest that is not
	// divided among them.
	Rest      int     `json:"rest,omitempty"`
	RestLimit string  `json:"rest_limit,omitempty"`
	Lag       Seconds `json:"lag,omitempty"`
	Shares    *Shares `json:"shares,omitempty"`

	// Problem is the reason why the limit cannot be divided, or why the global store was not read.
	Problem string `json:"problem,omitempty"`
}

func (r *Region) write(b *strings.Builder) {
	if r == nil {
		return
	}
	fmt.Fprintf(b, "      region %s: admits at most %d%%", r.Name, r.Bound)
	if r.Limit != "" {
		fmt.Fprintf(b, ", %d%% by itself (%s)", r.Part, r.Limit)
	}
	if r.Rest > 0 {
		fmt.Fprintf(b, ", %d%% shared by all regions (%s)", r.Rest, r.RestLimit)
	}
	b.WriteByte('\n')
	switch {
	case r.Problem != "":
		fmt.Fprintf(b, "      not shared: %s\n", Printable(r.Problem))
	case r.Rest > 0:
		fmt.Fprintf(b, "      global store: lag %s\n", r.Lag)
		r.Shares.write(b)
	}
}
