package cli

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/weirfile"
)

// regionsText prints the part of each region, and the rest.
func regionsText(b *strings.Builder, r *weirfile.Regions) {
	if r == nil {
		return
	}
	for _, m := range r.Members {
		fmt.Fprintf(b, "region: %s: ", m.Name)
		if m.Part > 0 {
			fmt.Fprintf(b, "%d%% of each limit", m.Part)
		} else {
			b.WriteString("no part of its own")
		}
		if m.Store != "" {
			fmt.Fprintf(b, ", in %s", config.Redacted(m.Store))
		}
		b.WriteByte('\n')
	}
	if n := r.Rest(); n > 0 {
		fmt.Fprintf(b, "rest: %d%% of each limit, shared in %s\n", n, config.Redacted(r.Global))
	}
}
