package compare

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// mark begins the lines of a contender that hold a sample.
const mark = "@sample "

// Serve opens a contender in this process and measures once for each duration that in has,
// until in ends.
func Serve(t testing.TB, c Contender, in io.Reader, out io.Writer) {
	t.Helper()
	measure := c.Open(t)
	fmt.Fprintln(out, mark+"{}") // it is open
	for s := bufio.NewScanner(in); s.Scan(); {
		d, err := time.ParseDuration(s.Text())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(measure(t, d))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(out, mark+string(text))
	}
}

// A process is a contender that runs.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	samples chan Sample
	ended   chan struct{}

	mu   sync.Mutex
	said []string // its last lines that are no samples
}

// start starts a process and waits until its contender is open.
func start(cmd *exec.Cmd, patience time.Duration) (*process, error) {
	p := &process{cmd: cmd, samples: make(chan Sample, 1), ended: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	cmd.Stderr = cmd.Stdout
	group(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	if _, err := p.sample(patience); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) read(out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), mark)
		var s Sample
		if ok && json.Unmarshal([]byte(text), &s) == nil {
			p.samples <- s
			continue
		}
		p.mu.Lock()
		p.said = append(p.said, lines.Text())
		p.mu.Unlock()
	}
	if err := lines.Err(); err != nil {
		p.mu.Lock()
		p.said = append(p.said, err.Error())
		p.mu.Unlock()
	}
}

// measure returns the sample of one round.
func (p *process) measure(d, patience time.Duration) (Sample, error) {
	if _, err := fmt.Fprintln(p.in, d); err != nil {
		return nil, p.failure()
	}
	return p.sample(patience)
}

func (p *process) sample(patience time.Duration) (Sample, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s := <-p.samples:
		return s, nil
	case <-p.ended:
		return nil, p.failure()
	case <-timer.C:
		return nil, fmt.Errorf("no sample within %v", patience)
	}
}

// noise matches the lines of a failed test that do not say why it failed.
var noise = regexp.MustCompile(`^(--- FAIL|=== |FAIL|PASS|exit status|goroutine |\s*$)`)

// position matches where a test failed, which changes with the source.
var position = regexp.MustCompile(`^\w+\.go:\d+: `)

// failure returns the first lines that the process wrote, in one.
func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var said []string
	for _, line := range p.said {
		if !noise.MatchString(line) && len(said) < 3 {
			said = append(said, position.ReplaceAllString(strings.TrimSpace(line), ""))
		}
	}
	text := strings.Join(said, "; ")
	if text == "" {
		text = "the process ended"
	}
	return fmt.Errorf("%.300s", text)
}

// stop ends the process and every server that it left behind.
func (p *process) stop() {
	p.in.Close()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
	killGroup(p.cmd)
	p.cmd.Wait()
}
