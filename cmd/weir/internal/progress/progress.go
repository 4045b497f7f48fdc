// Package progress shows on a terminal what a long command does.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
)

const (
	first    = time.Second // a shorter command shows nothing
	interval = 500 * time.Millisecond
)

// A Progress shows a line until it is done.
type Progress struct {
	out         io.Writer // nil: not a terminal
	begin       time.Time
	ended, done chan struct{} // ended is nil after Done
}

// Start shows the text of status on out, from a second on and twice a second, if out is a
// terminal. Status gets the time since the start, and is called by another goroutine.
func Start(out io.Writer, status func(time.Duration) string) *Progress {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return &Progress{begin: time.Now()}
	}
	return start(out, status)
}

// Doing is a status: what is done, and for how long.
func Doing(what string) func(time.Duration) string {
	return func(d time.Duration) string { return fmt.Sprintf("%s, %d s", what, int(d.Seconds())) }
}

func start(out io.Writer, status func(time.Duration) string) *Progress {
	p := &Progress{out: out, begin: time.Now(), ended: make(chan struct{}), done: make(chan struct{})}
	go p.show(status, p.ended)
	return p
}

func (p *Progress) show(status func(time.Duration) string, ended <-chan struct{}) {
	defer close(p.done)
	next := time.NewTimer(first)
	defer next.Stop()
	for shown := false; ; shown = true {
		select {
		case <-next.C:
			fmt.Fprintf(p.out, "\r%s\033[K", status(time.Since(p.begin)))
			next.Reset(interval)
		case <-ended:
			if shown {
				fmt.Fprint(p.out, "\r\033[K")
			}
			return
		}
	}
}

// Done removes the line and returns the time since the start.
func (p *Progress) Done() time.Duration {
	if p.ended != nil {
		close(p.ended)
		<-p.done
		p.ended = nil
	}
	return time.Since(p.begin)
}

// Summarize prints a line with the time since the start, if the command showed progress or
// took that long.
func (p *Progress) Summarize(out io.Writer, format string, args ...any) {
	if took := p.Done(); took >= first {
		fmt.Fprintf(out, format+" in %v\n", append(args, took.Round(10*time.Millisecond))...)
	}
}

// Report prints what a command has written, and the time since the start, if out is a terminal.
func (p *Progress) Report(format string, args ...any) {
	to := p.out
	if took := p.Done(); to != nil {
		fmt.Fprintf(to, format+" in %v\n", append(args, took.Round(10*time.Millisecond))...)
	}
}

// Count returns a number and its noun, such as "1 file" or "2 policies".
func Count(n int, noun string) string {
	switch stem, ok := strings.CutSuffix(noun, "y"); {
	case n == 1:
	case ok:
		noun = stem + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
