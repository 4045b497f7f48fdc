package calllog_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/verify/calllog"
)

func TestLog(t *testing.T) {
	at := time.Date(2026, 11, 11, 12, 0, 0, 123456789, time.UTC)
	all := []calllog.Call{
		{Sent: at, At: at, Action: calllog.Leave, User: "u", Sale: "s"},
		{Sent: at, At: at.Add(time.Second), User: "用户\n\"", Sale: "s", Action: calllog.Buy, Status: 202, Layer: "L3", Reason: "r", State: "reserved", Ticket: "p",
			Rank: 1 << 50, Ahead: 3, Poll: 4, Token: calllog.Digest([]byte("token")), Until: at, Receipt: "r", Granted: at, Key: "k", Body: "b",
			Payment: "pay", Misuse: calllog.Stolen, Skew: -3600000, Workers: 4, Issued: 9},
	}
	var b bytes.Buffer
	l := calllog.NewLog(&b)
	l.Record(all...)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	got, err := calllog.Read(strings.NewReader(whole))
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("Read = %+v, %v, want the recorded ones: %+v", got, err, all)
	}
	// A killed writer leaves an incomplete last line.
	for cut := range len(whole) {
		got, err := calllog.Read(strings.NewReader(whole[:cut]))
		if want := strings.Count(whole[:cut], "\n"); err != nil || len(got) != want {
			t.Fatalf("Read of %d bytes = %d observations, %v, want %d", cut, len(got), err, want)
		}
	}
}

func TestLogConcurrently(t *testing.T) {
	var b bytes.Buffer
	l := calllog.NewLog(&b)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				l.Record(calllog.Call{Sent: time.Now(), At: time.Now().Add(1), Action: calllog.Join})
			}
		})
	}
	all.Wait()
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := calllog.Read(&b); err != nil || len(got) != 4000 {
		t.Errorf("Read = %d observations, %v, want 4000", len(got), err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestLogFails(t *testing.T) {
	l := calllog.NewLog(full{})
	for range 10_000 {
		l.Record(calllog.Call{Sent: time.Now(), At: time.Now().Add(1), Action: calllog.Join, Body: strings.Repeat("b", 100)})
	}
	if err := l.Flush(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Flush = %v, want the error of the writer", err)
	}
	var b bytes.Buffer
	l = calllog.NewLog(&b)
	l.Record(calllog.Call{Action: calllog.Join, Body: strings.Repeat("b", 20_000)})
	if err := l.Flush(); err == nil || b.Len() != 0 {
		t.Errorf("Flush = %v, %d bytes written, want an error and 0 bytes", err, b.Len())
	}
}

func TestReadRefuses(t *testing.T) {
	const good = `{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join"}` + "\n"
	for _, bad := range []string{
		"\n",
		"null\n",
		"[]\n",
		"{}\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"steal"}` + "\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join","misuse":"good"}` + "\n",
		`{"sent":"2026-11-11T12:00:02Z","at":"2026-11-11T12:00:01Z","action":"join"}` + "\n",
		`{"at":"2026-11-11T12:00:01Z","action":"join"}` + "\n",
		`{"sent":"yesterday","at":"2026-11-11T12:00:01Z","action":"join"}` + "\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join","status":1000}` + "\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join","status":-1}` + "\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join","issued":-1}` + "\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join","rank":1e99}` + "\n",
		`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join","colour":"red"}` + "\n",
		strings.TrimSpace(good) + " {}\n",
		strings.TrimSpace(good) + " x\n",
		strings.TrimSpace(good) + " }\n",
		`{"body":"` + strings.Repeat("x", 20_000) + `"}` + "\n",
		strings.Repeat("[", 10_000) + "\n",
		"\x00\xff\xfe\n",
	} {
		got, err := calllog.Read(strings.NewReader(good + bad + good))
		if err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("Read(%.60q) = %d observations, %v, want an error that names line 2", bad, len(got), err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"sent":"2026-11-11T12:00:00Z","at":"2026-11-11T12:00:01Z","action":"join"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := calllog.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		l := calllog.NewLog(&b)
		l.Record(got...)
		if err := l.Flush(); err != nil {
			return // the line is longer when it is written again
		}
		again, err := calllog.Read(&b)
		if err != nil || len(again) != len(got) {
			t.Fatalf("%q: read %d observations, and %d of what was written of them: %v", text, len(got), len(again), err)
		}
	})
}
