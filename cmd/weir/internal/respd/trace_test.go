package respd_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/respd"
)

// TestTraces plays the conversations of testdata/*.trace. A line is
//
//	password TEXT    the password of the server, before anything else
//	+DURATION        time goes on
//	connect          another connection
//	> WORDS          a command; a word may be quoted
//	< REPLY          what it is answered, as read writes it
//	# COMMENT
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			play(t, name, string(data))
		})
	}
}

func play(t *testing.T, name, text string) {
	var now atomic.Int64
	now.Store(1_700_000_000_000_000)
	config := respd.Config{Store: memory(t, &now), Version: "1.2.3"}
	var c *client
	var reply string
	var addr string
	begin := func() {
		if addr == "" {
			_, addr = start(t, config)
		}
		c = dial(t, addr)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "password "):
			config.Password = strings.TrimPrefix(line, "password ")
		case line == "connect":
			begin()
		case line[0] == '+':
			d, err := time.ParseDuration(line[1:])
			if err != nil {
				t.Fatal(err)
			}
			now.Add(d.Microseconds())
		case strings.HasPrefix(line, "> "):
			if c == nil {
				begin()
			}
			reply = c.do(t, words(line[2:])...)
		case strings.HasPrefix(line, "< "):
			if reply != line[2:] {
				t.Errorf("%s:%d: got %s, want %s", name, n, reply, line[2:])
			}
		default:
			t.Fatalf("%s:%d: %q", name, n, line)
		}
	}
}

// words splits a line at spaces outside double quotes.
func words(line string) (all []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if rest, ok := strings.CutPrefix(line, `"`); ok {
			word, after, _ := strings.Cut(rest, `"`)
			all, line = append(all, word), after
			continue
		}
		word, after, _ := strings.Cut(line, " ")
		all, line = append(all, word), after
	}
	return all
}
