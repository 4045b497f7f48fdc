package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// wovenExample builds the program of an example directory with `weir go`.
func wovenExample(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(dir))
	cmd := exec.Command(programtest.Weir(t), "go", "build", "-o", binary, "./examples/"+dir)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("weir go build ./examples/%s: %v\n%s", dir, err, out)
	}
	return binary
}

// prints runs a program to its end and returns its output.
func prints(t *testing.T, binary string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(binary), args, err, out)
	}
	return string(out)
}

const (
	fifteenOK = "ok\nok\nok\nok\nok\nok\nok\nok\nok\nok\nok\nok\nok\nok\nok\n"
	limited   = `{"code":888,"message":"rate limit error"}` + "\n"
)

// TestExampleCounter runs the limit of ten calls in ten seconds, with generated and with woven
// code.
func TestExampleCounter(t *testing.T) {
	t.Parallel()
	want := fifteenOK[:10*len("ok\n")] + strings.Repeat(limited, 5)
	if got := prints(t, programtest.Build(t, "./examples/counter")); got != want {
		t.Errorf("counter, generated, prints\n%s, want\n%s", got, want)
	}
	if got := prints(t, wovenExample(t, "counter/woven")); got != want {
		t.Errorf("counter/woven, by weir go, prints\n%s, want\n%s", got, want)
	}
	if got := prints(t, wovenExample(t, "counter")); got != want {
		t.Errorf("counter, by weir go, prints\n%s, want\n%s: it is limited once", got, want)
	}
	if got := prints(t, programtest.Build(t, "./examples/counter/woven")); got != fifteenOK {
		t.Errorf("counter/woven, by go alone, prints\n%s, want no limit", got)
	}
}

// TestExamplesGenerated checks that the committed files are those that the //go:generate line
// writes.
func TestExamplesGenerated(t *testing.T) {
	t.Parallel()
	weir := programtest.Weir(t)
	for _, dir := range []string{"counter", "errorchain"} {
		cmd := exec.Command(weir, "generate", "--check", "./examples/"+dir)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("weir generate --check ./examples/%s: %v\n%s", dir, err, out)
		}
		text, err := os.ReadFile("../examples/" + dir + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n//go:generate go run github.com/floodweir/weir/cmd/weir generate\n") {
			t.Errorf("examples/%s/main.go has no line //go:generate that works in a fresh checkout", dir)
		}
	}
}

// lines collects the lines that a program prints.
type lines struct {
	t    *testing.T
	all  chan string
	seen []string
}

// runs starts a program and stops it when the test ends.
func runs(t *testing.T, binary string, args ...string) *lines {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &lines{t: t, all: make(chan string, 1024)}
	go l.read(stdout)
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		for range l.all { // until the program has closed it
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s at its end: %v", filepath.Base(binary), err)
		}
	})
	return l
}

func (l *lines) read(r io.Reader) {
	defer close(l.all)
	for s := bufio.NewScanner(r); s.Scan(); {
		l.all <- s.Text()
	}
}

// await reads until each of the wanted lines was printed, in any order.
func (l *lines) await(what string, want ...string) {
	l.t.Helper()
	missing := map[string]bool{}
	for _, w := range want {
		missing[w] = true
	}
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for len(missing) > 0 {
		select {
		case line, ok := <-l.all:
			if !ok {
				l.t.Fatalf("%s: the program ended; it printed\n%s", what, strings.Join(l.seen, "\n"))
			}
			l.seen = append(l.seen, line)
			delete(missing, line)
		case <-deadline.C:
			l.t.Fatalf("%s: no line %v within a minute; the program printed\n%s", what, missing, strings.Join(l.seen, "\n"))
		}
	}
}

// TestExampleErrorchain stops Redis while the program runs and starts it again.
func TestExampleErrorchain(t *testing.T) {
	t.Parallel()
	binary, redis := programtest.Build(t, "./examples/errorchain"), redistest.StartDurable(t)
	text, err := os.ReadFile("../examples/errorchain/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	l := runs(t, binary, "-redis", redis.Addr, "-config", file, "-every", "20ms")
	const alice, bob = "alice: id of alice", "bob: id of bob"
	l.await("with Redis", alice, bob)
	l.await("too often", "alice: not now, alice: 0 left of 5/s sliding_log", "bob: not now, bob: 0 left of 5/s sliding_log")
	redis.Stop()
	l.await("without Redis", "alice: remembered id of alice", "bob: reserved id for bob")
	redis.Restart(t)
	l.await("with Redis again", alice, bob)
	l.await("too often again", "alice: not now, alice: 0 left of 5/s sliding_log")

	other := strings.Replace(string(text), "5/s", "7/s", 1)
	if err := os.WriteFile(file+".new", []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	l.await("another number", "alice: not now, alice: 0 left of 7/s sliding_log")
}

// TestExampleErrorchainRefuses checks that the program refuses flags that cannot work.
func TestExampleErrorchainRefuses(t *testing.T) {
	t.Parallel()
	binary := programtest.Build(t, "./examples/errorchain")
	closed := porttest.Address(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-config", "no.yaml"}, "no.yaml"},
		{[]string{"-every", "0s"}, "-every 0s: want more than 0"},
		{[]string{"-redis", closed}, closed},
	} {
		cmd := exec.Command(binary, c.args...)
		cmd.Dir = ".."
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == 0 || !strings.Contains(string(out), c.want) {
			t.Errorf("errorchain %v: %v, want a failure that names %q:\n%s", c.args, err, c.want, out)
		}
	}
}

const seckillFast = `second    asked  script  weir
1            10       3     3
2            10       2     2
3            10       1     2
4            10       2     2
all          40       8     9
burst + rate × time: ⌊2 + 2 × 3.8⌋ = 9
`

// TestExampleSeckill checks that the program admits exactly what its formula says: with a
// simulated clock, and in Redis in four seconds of real time.
func TestExampleSeckill(t *testing.T) {
	t.Parallel()
	binary, redis := programtest.Build(t, "./examples/seckill"), redistest.Start(t)
	if got := prints(t, binary, "-fast"); got != seckillFast {
		t.Errorf("seckill -fast prints\n%s, want\n%s", got, seckillFast)
	}
	out := prints(t, binary, "-redis", redis.Addr)
	var asked, script, admitted, due int
	_, sum, _ := strings.Cut(out, "\nall")
	sum, formula, _ := strings.Cut(sum, "\n")
	_, formula, _ = strings.Cut(formula, "⌋ = ")
	if _, err := fmt.Sscan(sum, &asked, &script, &admitted); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if _, err := fmt.Sscan(formula, &due); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if asked != 40 || admitted != due || due < 9 || script > admitted {
		t.Errorf("want 40 asked, what the formula says admitted, and no more by the script:\n%s", out)
	}
	if out, err := exec.Command(binary, "-fast", "-redis", redis.Addr).CombinedOutput(); err == nil {
		t.Errorf("-fast with -redis: want an error, got\n%s", out)
	}
}
