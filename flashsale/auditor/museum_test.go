package auditor_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"

	"github.com/floodweir/weir/flashsale/auditor"
)

// TestTheatre: the real parts, with buyers who behave badly, and nothing to be found.
func TestTheatre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stage(t, cast{}).play()
		var table strings.Builder
		r.WriteTo(&table)
		t.Log("\n" + table.String())
		if r.Violations() > 0 || len(r.Errors) > 0 {
			t.Error("a sale of the real parts was found wanting")
		}
		for _, name := range auditor.Invariants() {
			if r.Findings[name].Checks == 0 {
				t.Errorf("%s: no check", name)
			}
		}
	})
}

var _ = fmt.Sprint
var _ = os.Args
var _ = tabwriter.NewWriter
