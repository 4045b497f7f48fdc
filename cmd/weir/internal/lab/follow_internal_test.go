package lab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile"
)

// TestTail reads a file that grows, is truncated and is replaced, until the context is done.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(text string, flags int) {
		t.Helper()
		f, err := os.OpenFile(path, flags|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("first line\n", 0)
	ctx, cancel := context.WithCancel(t.Context())
	in, err := openTail(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	lines := bufio.NewScanner(in)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, %v, want %q", lines.Text(), lines.Err(), want)
		}
	}
	next("first line")
	write("grown", os.O_APPEND)
	write(" line\n", os.O_APPEND)
	next("grown line")
	write("short\n", os.O_TRUNC)
	next("short")
	write("last of the old\n", os.O_APPEND)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	next("last of the old")
	write("first of the new\n", 0)
	next("first of the new")
	cancel()
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
	}
}

// clientsLog returns the log of 30 clients with some requests a minute, each minute.
func clientsLog(from, to, each int) string {
	var b strings.Builder
	for m := from; m < to; m++ {
		for s := range each {
			for c := range 30 {
				fmt.Fprintf(&b, "%d.5,192.0.2.%d,GET,/a,200\n", 1764000000+60*m+s, c)
			}
		}
	}
	return b.String()
}

// TestFollow follows standard input: a proposal when use has grown enough, none while it stays,
// bounded by --max, as a file that is valid. A policy in force keeps its name. It ends when its context
// is done.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	next, running := filepath.Join(dir, "next.yaml"), filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(running, []byte(`policies:
  - { name: reads, match: { methods: GET }, key: client.ip, limits: 9/m }
  - { name: host, match: { hosts: a.example }, key: client.ip, limits: 8/m }
  - { name: site, key: client.ip, limits: 1/h }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	in, to := io.Pipe()
	from, out := io.Pipe()
	var summary bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	var cmd = Commands(Config{Stdin: in, Stdout: out, Stderr: &summary, Load: weirfile.Load})[2]
	cmd.SetArgs([]string{"-", "--follow", "--every", "10m", "--window", "1h", "--output", next, "--policies", running, "--max", "site=20/m burst 25", "--min", "reads=1/m"})
	cmd.SetOut(&summary)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		out.Close()
	}()
	go func() {
		io.WriteString(to, "time,client_ip,method,path,status\n"+clientsLog(0, 60, 4)+clientsLog(60, 120, 10)+clientsLog(120, 180, 30))
	}()
	lines := bufio.NewScanner(from)
	for i, want := range []string{"2025-11-24T16:09:03Z site: 1/h burst 1 -> ", "site: 10/m burst 7 -> 20/m burst 14", "-> 20/m burst 25"} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("proposal %d: %q, want %q", i, lines.Text(), want)
		}
	}
	text, err := os.ReadFile(next)
	if err != nil || !strings.Contains(string(text), `limits: ["20/m burst 25"`) {
		t.Errorf("the file has (%v):\n%s", err, text)
	}
	if _, err := weirfile.Load(next); err != nil {
		t.Error(err)
	}
	cancel()
	for lines.Scan() {
		t.Errorf("another proposal: %s", lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || !strings.Contains(summary.String(), ": 3 proposals\n") {
		t.Errorf("ended with %v and %q, want a summary of 3 proposals", err, &summary)
	}
	if !strings.Contains(summary.String(), `no policy "reads" is proposed yet`) || strings.Contains(summary.String(), `"site"`) {
		t.Errorf("standard error %q, want a warning about the bound of reads", &summary)
	}
}
