package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// transcriptVariable names the directory in which TestDocs writes a transcript of each page.
const transcriptVariable = "WEIR_TRANSCRIPT"

// maxSilence is the time after which a command that prints nothing looks hung.
const maxSilence = 2 * time.Second

// A transcript records what a reader of a page types and sees, with the seconds of each command.
// A nil transcript records nothing.
type transcript struct {
	sections []*section
	silent   []string // commands that printed nothing for maxSilence
}

type section struct {
	title string
	took  time.Duration
	text  strings.Builder
}

// begin begins a section, unless it is the current one.
func (t *transcript) begin(title string) {
	if t == nil || len(t.sections) > 0 && t.sections[len(t.sections)-1].title == title {
		return
	}
	t.sections = append(t.sections, &section{title: title})
}

// file records that the reader saves a file.
func (t *transcript) file(name string) {
	if t != nil {
		fmt.Fprintf(&t.sections[len(t.sections)-1].text, "(saves %s)\n", name)
	}
}

// command records a command. typed is that of the page, and ran is its replacement in the test.
func (t *transcript) command(typed, ran string, out *timedOutput) {
	if t == nil {
		return
	}
	took, silence := out.times()
	s := t.sections[len(t.sections)-1]
	s.took += took
	fmt.Fprintf(&s.text, "$ %s\n", typed)
	if ran != typed {
		fmt.Fprintf(&s.text, "(in its place: %s)\n", ran)
	}
	s.text.WriteString(out.rest())
	fmt.Fprintf(&s.text, "(%.1f s, prints nothing for %.1f s)\n", took.Seconds(), silence.Seconds())
	if silence > maxSilence && !strings.HasPrefix(ran, "go ") { // the go command prints nothing while it compiles
		t.silent = append(t.silent, fmt.Sprintf("%s: prints nothing for %.1f s", typed, silence.Seconds()))
	}
}

// stopped records what a server printed since it was ready.
func (t *transcript) stopped(command string, out *timedOutput) {
	if t == nil {
		return
	}
	if rest := out.rest(); rest != "" {
		fmt.Fprintf(&t.sections[len(t.sections)-1].text, "(until it stops, %s prints)\n%s", command, rest)
	}
}

// write writes the transcript, after a table of its sections.
func (t *transcript) write(tb testing.TB, file string) {
	tb.Helper()
	for _, s := range t.silent {
		tb.Errorf("%s: want progress every %v", s, maxSilence)
	}
	var b strings.Builder
	for _, s := range t.sections {
		fmt.Fprintf(&b, "%6.1f s  %s\n", s.took.Seconds(), s.title)
	}
	for _, s := range t.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s", s.title, &s.text)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		tb.Error(err)
	}
}

// transcriptOf returns the transcript of a page and the function that writes it; nil and nothing
// without transcriptVariable.
func transcriptOf(t *testing.T, page string) (*transcript, func()) {
	dir := os.Getenv(transcriptVariable)
	if dir == "" {
		return nil, func() {}
	}
	to := &transcript{}
	return to, func() { to.write(t, filepath.Join(dir, strings.TrimSuffix(filepath.Base(page), ".md")+".txt")) }
}

// A timedOutput collects the output of a command, and measures how long it prints nothing.
type timedOutput struct {
	mu      sync.Mutex
	b       bytes.Buffer
	read    int
	begin   time.Time
	last    time.Time
	longest time.Duration
}

func newOutput() *timedOutput {
	now := time.Now()
	return &timedOutput{begin: now, last: now}
}

func (o *timedOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.longest, o.last = max(o.longest, now.Sub(o.last)), now
	return o.b.Write(p)
}

func (o *timedOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// rest returns the output since the last call.
func (o *timedOutput) rest() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.b.String()[o.read:]
	o.read = o.b.Len()
	return text
}

// times returns the time since the begin of the command, and the longest one without output.
func (o *timedOutput) times() (took, silence time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	return now.Sub(o.begin), max(o.longest, now.Sub(o.last))
}

// TestTranscript checks what a transcript has, and that silence of other commands than go is an error.
func TestTranscript(t *testing.T) {
	after := func(d time.Duration, text string) *timedOutput {
		begin := time.Now().Add(-d)
		o := &timedOutput{begin: begin, last: begin}
		if text != "" {
			fmt.Fprintln(o, text)
		}
		return o
	}
	r := &transcript{}
	r.begin("One")
	r.file("main.go")
	r.command("weir a", "weir a", after(time.Second, "quick"))
	r.command("weir b", "weir c", after(3*time.Second, "late"))
	r.begin("One")
	r.begin("Two")
	r.command("go run .", "go run .", after(3*time.Second, ""))
	if len(r.silent) != 1 || !strings.HasPrefix(r.silent[0], "weir b: prints nothing for 3.") {
		t.Errorf("silent = %q, want weir b", r.silent)
	}
	r.silent = nil
	file := filepath.Join(t.TempDir(), "page.txt")
	r.write(t, file)
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "   4.0 s  One\n   3.0 s  Two\n\n## One\n\n(saves main.go)\n$ weir a\nquick\n(1.0 s, prints nothing for 1.0 s)\n" +
		"$ weir b\n(in its place: weir c)\nlate\n(3.0 s, prints nothing for 3.0 s)\n\n## Two\n\n$ go run .\n(3.0 s, prints nothing for 3.0 s)\n"
	if string(got) != want {
		t.Errorf("transcript =\n%s\nwant\n%s", got, want)
	}
}
