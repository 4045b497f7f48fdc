package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A block is a fenced block of a page.
type block struct {
	kind    string // sh, console, go, yaml, …
	line    int    // of its opening fence
	section string // the heading above it
	text    string
}

// blocks returns the fenced blocks of a Markdown page.
func blocks(page string) ([]block, error) {
	var all []block
	var open *block
	n, section := 0, ""
	for line := range strings.Lines(page) {
		n++
		fence, found := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !found && open != nil:
			open.text += line
		case !found:
			if title, ok := strings.CutPrefix(line, "## "); ok {
				section = strings.TrimSpace(title)
			}
		case open == nil:
			open = &block{kind: fence, line: n, section: section}
		case fence == "":
			all = append(all, *open)
			open = nil
		default:
			return nil, fmt.Errorf("line %d: a block opens inside a block", n)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block does not end", open.line)
	}
	return all, nil
}

// A step is a command of a page and, in a console block, its documented output.
type step struct {
	line    int
	command string
	output  []string
	judged  bool // the page shows its output
	check   bool // a check of the test, which the page does not have
}

// steps returns the commands of a sh or console block. A command continues after a backslash
// at the end of a line, and until its quotes are closed.
func (b block) steps() ([]step, error) {
	var all []step
	lines := strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		text, at := lines[i], b.line+1+i
		if b.kind == "console" {
			command, ok := strings.CutPrefix(text, "$ ")
			if !ok {
				if len(all) == 0 {
					return nil, fmt.Errorf("line %d: output before the first command", at)
				}
				all[len(all)-1].output = append(all[len(all)-1].output, text)
				continue
			}
			text = command
		}
		if t := strings.TrimSpace(text); t == "" || t[0] == '#' {
			continue
		}
		for unfinished(text) && i+1 < len(lines) {
			i++
			text += "\n" + lines[i]
		}
		all = append(all, step{line: at, command: text, judged: b.kind == "console"})
	}
	return all, nil
}

func unfinished(command string) bool {
	return strings.HasSuffix(command, `\`) || strings.Count(command, "'")%2 == 1
}

// A terminal runs the commands of one page in order, as a reader types them. It keeps the
// working directory, and runs servers in the background.
type terminal struct {
	dir     string            // the working directory
	left    string            // the directory before: $OLDPWD
	env     []string          // in addition to the test's own
	instead map[string]string // replacements of commands
	servers []server          // commands that run until the end of the page
	record  *transcript
	running []*process
}

// A server is a command that does not end, and a command that succeeds when the server is
// ready. It stops running servers whose prefixes start with prefix or stops.
type server struct{ prefix, ready, stops string }

type process struct {
	prefix  string
	command string
	cmd     *exec.Cmd
	out     *timedOutput
	ended   chan struct{} // closed when it has ended
	err     error
}

// run runs one command and returns an error if its result differs from the page.
func (t *terminal) run(s step) error {
	command := s.command
	if other, ok := t.instead[command]; ok {
		command = other
	}
	for _, v := range t.servers {
		if strings.HasPrefix(command, v.prefix) {
			return t.start(v, s.command, command)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	where := filepath.Join(os.TempDir(), fmt.Sprintf("weir-page-%d-%p", os.Getpid(), t))
	defer os.Remove(where)
	cmd := t.command(ctx, command+"\nstatus=$?; pwd >'"+where+"'; exit $status")
	out := newOutput()
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if !s.check {
		t.record.command(s.command, command, out)
	}
	if err != nil {
		return fmt.Errorf("line %d: %s: %w\n%s", s.line, s.command, err, out)
	}
	if text, err := os.ReadFile(where); err == nil {
		if dir := strings.TrimSpace(string(text)); dir != t.dir {
			t.dir, t.left = dir, t.dir
		}
	}
	if s.judged && !like(s.output, strings.Split(strings.TrimRight(out.String(), "\n"), "\n")) {
		return fmt.Errorf("line %d: %s: the page says that it prints\n%s\nand it prints\n%s",
			s.line, s.command, strings.Join(s.output, "\n"), out)
	}
	return nil
}

// start starts a server in place of a running one of the same kind and waits until it is
// ready. typed is the command of the page.
func (t *terminal) start(v server, typed, command string) error {
	t.stop(v.prefix)
	if v.stops != "" {
		t.stop(v.stops)
	}
	if t.command(context.Background(), v.ready).Run() == nil {
		return fmt.Errorf("%s: its port is already in use (%s)", command, v.ready)
	}
	p := &process{prefix: v.prefix, command: typed, cmd: t.command(context.Background(), "exec "+command), out: newOutput(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { p.err = p.cmd.Wait(); close(p.ended) }()
	t.running = append(t.running, p)
	tick := time.NewTicker(200 * time.Millisecond) // each starts two processes
	defer tick.Stop()
	deadline := time.After(3 * time.Minute)
	for {
		select {
		case <-p.ended:
			return fmt.Errorf("%s: ended before it was ready: %v\n%s", command, p.err, p.out)
		case <-deadline:
			t.stop(v.prefix)
			return fmt.Errorf("%s: not ready after 3 minutes (%s)\n%s", command, v.ready, p.out)
		case <-tick.C:
			if t.command(context.Background(), v.ready).Run() == nil {
				t.record.command(typed, command, p.out)
				return nil
			}
		}
	}
}

// stop stops the servers whose commands have the given prefix.
func (t *terminal) stop(prefix string) {
	var rest []*process
	for _, p := range t.running {
		if !strings.HasPrefix(p.prefix, prefix) {
			rest = append(rest, p)
			continue
		}
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(time.Minute):
			syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.ended
		}
		t.record.stopped(p.command, p.out)
	}
	t.running = rest
}

// command returns a command line in its own process group.
func (t *terminal) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = t.dir
	cmd.Env = append(append(os.Environ(), t.env...), "OLDPWD="+t.left)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// like reports whether got matches the page line for line. In a line, … matches any text;
// alone, it matches any lines.
func like(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0 || len(got) == 1 && got[0] == ""
	case want[0] == "…":
		return like(want[1:], got) || len(got) > 0 && like(want, got[1:])
	case len(got) == 0:
		return false
	}
	return likeLine(strings.Split(strings.TrimRight(want[0], " "), "…"), strings.TrimRight(got[0], " \r")) && like(want[1:], got[1:])
}

// likeLine reports whether got consists of the parts with any text between them.
func likeLine(parts []string, got string) bool {
	rest, ok := strings.CutPrefix(got, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, p)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
