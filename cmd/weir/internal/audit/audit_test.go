package audit_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
)

func newLog(t *testing.T) (*audit.Log, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	l, err := audit.New(audit.Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return l, &out
}

func read(t *testing.T, l *audit.Log, f audit.Filter) []audit.Entry {
	t.Helper()
	es, err := l.Read(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return es
}

func TestIntentAndResult(t *testing.T) {
	l, out := newLog(t)
	e, err := l.Append(t.Context(), audit.Entry{Actor: "mei", Via: "cli", Action: "reset", Policy: "login", Key: []string{"203.0.113.9"}, KeyID: "k1", Reason: "ticket 812"})
	if err != nil || e.ID != 1 || time.Since(e.At) > time.Minute {
		t.Fatalf("Append = %+v, %v, want entry 1 of now", e, err)
	}
	if got := read(t, l, audit.Filter{}); len(got) != 1 || got[0].OK != nil {
		t.Errorf("Read after the intent = %+v, want one entry without a result", got)
	}
	e.OK, e.Error = audit.No(), "store unavailable"
	if err := l.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got := read(t, l, audit.Filter{}); len(got) != 1 || got[0].OK == nil || *got[0].OK || got[0].Error != "store unavailable" || got[0].Reason != "ticket 812" {
		t.Errorf("Read after the result = %+v, want one entry that failed", got)
	}
	for _, want := range []string{"result=pending", "result=failed", "actor=mei", "key=k1", `reason="ticket 812"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log %s, want %s", out, want)
		}
	}
	if strings.Contains(out.String(), "203.0.113.9") {
		t.Errorf("log %s, want no plain key", out)
	}
}

// TestPages checks that pages have each kept entry once, newest first.
func TestPages(t *testing.T) {
	l, _ := newLog(t)
	for i := range 2*audit.Keep + 5 {
		if _, err := l.Append(t.Context(), audit.Entry{Actor: strconv.Itoa(i % 2), Action: "lift", OK: audit.Yes()}); err != nil {
			t.Fatal(err)
		}
	}
	before, seen, last := int64(0), 0, int64(2*audit.Keep+6)
	for {
		page := read(t, l, audit.Filter{Actor: "0", Before: before, Limit: 300})
		for _, e := range page {
			if e.ID >= last || e.Actor != "0" {
				t.Fatalf("entry %d of %s after %d, want a smaller one of 0", e.ID, e.Actor, last)
			}
			last = e.ID
		}
		if seen += len(page); len(page) < 300 {
			break
		}
		before = last
	}
	if seen != audit.Keep/2 {
		t.Errorf("pages have %d entries of one actor, want %d", seen, audit.Keep/2)
	}
	if got := len(read(t, l, audit.Filter{})); got != audit.DefaultLimit {
		t.Errorf("Read without a limit = %d entries, want %d", got, audit.DefaultLimit)
	}
	if got := len(read(t, l, audit.Filter{Limit: 5000})); got != audit.MaxLimit {
		t.Errorf("Read of 5000 = %d entries, want %d", got, audit.MaxLimit)
	}
}

func TestLongTexts(t *testing.T) {
	l, _ := newLog(t)
	e, _ := l.Append(t.Context(), audit.Entry{Actor: strings.Repeat("é", 1000), Reason: "\xff", Key: make([]string, 100)})
	if len(e.Actor) > 1024 || !utf8.ValidString(e.Actor) || !utf8.ValidString(e.Reason) || len(e.Key) > 32 {
		t.Errorf("Append = %d bytes of actor, reason %q, %d parts, want at most 1024, valid UTF-8 and 32", len(e.Actor), e.Reason, len(e.Key))
	}
}

// TestStored checks that an entry is the same after it was in Redis.
func TestStored(t *testing.T) {
	e := audit.Entry{Actor: "mei", Via: "web", Action: "apply", Reason: `"é"`, From: "1", To: "2", OK: audit.Yes()}
	text := e.Encode()
	if !strings.HasPrefix(text, `{"actor"`) {
		t.Fatalf("Encode = %s, want an object without id and at, to which the script adds them", text)
	}
	if !strings.Contains(audit.Script, "- "+strconv.Itoa(audit.Keep)) {
		t.Errorf("Script keeps another number of entries than %d", audit.Keep)
	}
	e, err := e.Stored([]string{"7", "1764000000123"})
	if err != nil || e.ID != 7 || e.At.UnixMilli() != 1764000000123 {
		t.Fatalf("Stored = %+v, %v, want ID 7 and the time", e, err)
	}
	if text := e.Encode(); !strings.HasPrefix(text, `{"actor"`) && !strings.Contains(text, `"at":1764000000123`) {
		t.Errorf("Encode = %s, want the time in ms", text)
	}
	b, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(b), `"at":"2025-11-24T16:00:00.123Z"`) {
		t.Errorf("JSON %s, %v, want the time with ms", b, err)
	}
}

// TestSignIns checks that sign-ins and sign-outs cannot displace other entries.
func TestSignIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLog(t)
		for range 1000 {
			l.SignInFailed(t.Context(), "203.0.113.9", "web")
			synctest.Wait()
		}
		if got := read(t, l, audit.Filter{}); len(got) != 10 || got[0].Action != "sign_in" || *got[0].OK {
			t.Errorf("1000 failed sign-ins made %d entries, want 10", len(got))
		}
		for range 1000 {
			l.Signed(t.Context(), "mei", "web", "sign_in")
			synctest.Wait()
			l.Signed(t.Context(), "mei", "web", "sign_out")
			synctest.Wait()
		}
		l.Signed(t.Context(), "ana", "web", "sign_in")
		synctest.Wait()
		if got := read(t, l, audit.Filter{}); len(got) != 21 || got[0].Actor != "ana" || !*got[0].OK || got[1].Action != "sign_out" {
			t.Errorf("with 2000 sign-ins and sign-outs of mei and one of ana %d entries, the last %+v, want 21", len(got), got[0])
		}
	})
}
