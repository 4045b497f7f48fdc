package redisinventory

import (
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// FuzzEscape: every user and key comes back, and nothing in it can end a field or a key's tag.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "a b", "100%", "%20", "{a}", "用户", "\x00\n\x7f\xff", strings.Repeat("%", 128)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		if strings.ContainsAny(e, " \n\r\t\x00{}\x7f") {
			t.Errorf("escape(%q) = %q", s, e)
		}
		if back, err := unescape(e); err != nil || back != s {
			t.Errorf("unescape(%q) = %q, %v, want %q", e, back, err, s)
		}
	})
}

// FuzzParse: what is read is written in the same way again, and nothing panics.
func FuzzParse(f *testing.F) {
	r := sale.Reservation{ID: "0123456789abcdef", Sale: "s", Epoch: 3, User: "a user", Slot: 2, Ticket: "ticket-0123456789",
		Key: "k k", At: time.UnixMilli(1_700_000_000_000), PayBy: time.UnixMilli(1_700_000_060_000)}
	f.Add(record(&r))
	r.Quantity = 3
	f.Add(record(&r))
	for _, s := range []string{"", "h", "h 1 2 3 4 u ticket-0123456789 ", "r 1 2 3 4 u ticket-0123456789 k", "h -1 2 3 4 u t k", "h 1/0 2 3 4 u ticket-0123456789 ", "h 1/11 2 3 4 u ticket-0123456789 ", "h 1/ 2 3 4 u ticket-0123456789 ", strings.Repeat("h ", 600), "h 1 2 3 4 %4 ticket-0123456789 %"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse(r.ID, "s", text)
		if err != nil {
			return
		}
		again, err := parse(r.ID, "s", record(&got))
		if err != nil || again != got {
			t.Errorf("parse(%q) = %+v, and %+v, %v when written again", text, got, again, err)
		}
	})
}

func TestRecord(t *testing.T) {
	r := sale.Reservation{ID: "0123456789abcdef", Sale: "s", Epoch: 3, User: "a {user} 100% \xff", Slot: 2, Ticket: "ticket-0123456789",
		Key: "", At: time.UnixMilli(1_700_000_000_001).UTC(), PayBy: time.UnixMilli(1_700_000_060_000).UTC()}
	for r.Quantity = range sale.MaxQuantity + 1 {
		want := r
		want.Quantity = max(1, r.Quantity) // one unit is written as before there were quantities
		if got, err := parse(r.ID, "s", record(&r)); err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v, want %+v", record(&r), got, err, want)
		}
	}
	if got := record(&sale.Reservation{ID: r.ID, Slot: 2, Ticket: r.Ticket, User: "u", At: r.At, PayBy: r.PayBy}); !strings.HasPrefix(got, "h 2 17") {
		t.Errorf("record of one unit = %q, want the slot alone", got)
	}
	for _, quantity := range []string{"0", "11", "", "x", "-1"} {
		if got, err := parse(r.ID, "s", "h 1/"+quantity+" 2 3 4 u ticket-0123456789 "); err == nil {
			t.Errorf("parse of the quantity %q = %+v", quantity, got)
		}
	}
}

// TestScripts reads every file of lua, and finds each in a script.
func TestScripts(t *testing.T) {
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	all := []script{s.begin, s.build, s.open, s.close, s.drop, s.pause, s.stock, s.terms, s.paid, s.look, s.join, s.poll, s.reserve, s.transfer, s.giveBack, s.count, s.next, s.done, s.attend}
	entries, err := files.ReadDir("lua")
	if err != nil || len(entries) != len(all)+2 {
		t.Fatalf("%d files, %v, want one for each of %d scripts and two that they share", len(entries), err, len(all))
	}
	seen := map[string]bool{}
	for _, s := range all {
		if len(s.sha) != 40 || seen[s.sha] || s.text == "" {
			t.Errorf("script %s has the hash %q", s.name, s.sha)
		}
		seen[s.sha] = true
		// Names of keys are given, never made: a script that makes one breaks in a Cluster.
		if strings.Contains(s.text, "'fs:") || strings.Contains(s.text, "KEYS[1] ..") {
			t.Errorf("script %s makes the name of a key", s.name)
		}
	}
}

func TestTemporary(t *testing.T) {
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":               true,
		"READONLY You can't write against a read only replica.":        true,
		"READONLY You can't write … script: 12, on @user_script:3.":    true,
		"CLUSTERDOWN Hash slot not served":                             true,
		"MASTERDOWN Link with MASTER is down":                          true,
		"OOM command not allowed when used memory > 'maxmemory'.":      true,
		"ERR Error running script: -OOM command not allowed when used": true,
		"TRYAGAIN Multiple keys request during rehashing of slot":      true,
		"BUSY Redis is busy running a script.":                         true,
		"MISCONF Errors writing to the AOF file":                       true,
		"ERR max number of clients reached":                            true,
		"WRONGTYPE Operation against a key":                            false,
		"ERR unknown command 'XAUTOCLAIM'":                             false,
		"CROSSSLOT Keys in request don't hash to the same slot":        false,
	} {
		if got := temporary(text); got != want {
			t.Errorf("temporary(%q) = %v, want %v", text, got, want)
		}
	}
}
