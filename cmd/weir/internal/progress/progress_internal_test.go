package progress

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A terminal keeps what two goroutines write.
type terminal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// take returns what was written since the last call.
func (t *terminal) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.text.Reset()
	return t.text.String()
}

// TestProgress checks that a line appears after a second, changes, and is removed.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out terminal
		p := start(&out, Doing("reading"))
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if got := out.take(); got != "" {
			t.Errorf("before a second: %q", got)
		}
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		if got, want := out.take(), "\rreading, 1 s\033[K\rreading, 1 s\033[K\rreading, 2 s\033[K"; got != want {
			t.Errorf("after 2 s: %q, want %q", got, want)
		}
		p.Summarize(&out, "read %d files", 3)
		if got, want := out.take(), "\r\033[Kread 3 files in 2.1s\n"; got != want {
			t.Errorf("at the end: %q, want %q", got, want)
		}
	})
}

// TestReport checks the line at the end of a command that has written something.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out terminal
		p := start(&out, Doing("converting"))
		time.Sleep(20 * time.Millisecond)
		p.Done()
		p.Report("wrote %s with %s, %s", "weir.yaml", Count(1, "policy"), Count(2, "policy"))
		if got, want := out.take(), "wrote weir.yaml with 1 policy, 2 policies in 20ms\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		Start(&out, Doing("converting")).Report("wrote nothing")
		if got := out.take(); got != "" {
			t.Errorf("without a terminal: %q, want nothing", got)
		}
	})
}

// TestShort checks that a short command, and one without a terminal, shows nothing.
func TestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out terminal
		p := start(&out, Doing("reading"))
		p.Summarize(&out, "read")
		q := Start(&out, Doing("reading"))
		time.Sleep(time.Minute)
		q.Done()
		if got := out.take(); got != "" {
			t.Errorf("%q, want nothing", got)
		}
	})
}
