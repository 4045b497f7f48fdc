//go:build unix

package run_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/run"
)

// TestOneServes checks that a directory is served by one process at a time; beside it a merchant can be
// added.
func TestOneServes(t *testing.T) {
	dir := t.TempDir()
	c := run.Config{Data: dir, Shop: "127.0.0.1:0", Office: "127.0.0.1:0"}
	first, err := run.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	there := c
	there.Shop, there.Office = strings.TrimPrefix(first.ShopURL, "http://"), strings.TrimPrefix(first.OfficeURL, "http://")
	for _, c := range []run.Config{c, there} {
		if second, err := run.Start(t.Context(), c); err == nil {
			second.Stop()
			t.Error("a second one is started from the same directory")
		} else if !strings.Contains(err.Error(), "another process") {
			t.Errorf("a second one: %v, want that another process serves", err)
		}
	}
	if err := run.AddMerchant(t.Context(), c, "alice", "correct horse"); err != nil {
		t.Errorf("a merchant: %v", err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	again, err := run.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("after the first has stopped: %v", err)
	}
	again.Stop()
}
