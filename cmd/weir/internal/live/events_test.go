package live_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/cmd/weir/internal/nodes/nodestest"
	"github.com/floodweir/weir/enforce"
)

// TestClients checks that more than MaxClients streams are refused, and that a stream that ends
// makes room.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil, "gw-1", live.Config{})
		defer n.stop()
		var open []*client
		refused := 0
		for range 40 {
			c := n.connect(t, access.Read, "", nil)
			synctest.Wait()
			select {
			case <-c.done:
				if refused++; c.status != http.StatusServiceUnavailable {
					t.Errorf("stream ended with %d, want 503", c.status)
				}
			default:
				open = append(open, c)
			}
		}
		if len(open) != live.MaxClients || refused != 40-live.MaxClients {
			t.Errorf("%d streams open and %d refused, want %d", len(open), refused, live.MaxClients)
		}
		time.Sleep(3 * time.Second)
		for _, c := range open {
			if text := c.take(); strings.Count(text, "event: tick") < 3 {
				t.Errorf("a stream got %q in 3 s, want ticks", text)
			}
		}
		open[0].cancel()
		<-open[0].done
		c := n.connect(t, access.Read, "", nil)
		synctest.Wait()
		if c.status != http.StatusOK {
			t.Error("a stream was refused after another ended")
		}
		n.stop()
		for _, c := range append(open[1:], c) {
			<-c.done // ends with the program
		}
	})
}

// TestSlowClient checks that a client that does not read gets the latest tick and not a queue, and
// does not delay the others.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil, "gw-1", live.Config{})
		defer n.stop()
		block := make(chan struct{})
		slow, fast := n.connect(t, access.Read, "", block), n.connect(t, access.Read, "", nil)
		time.Sleep(30 * time.Second)
		if got := strings.Count(fast.take(), "event: tick"); got < 29 {
			t.Errorf("the fast client got %d ticks in 30 s", got)
		}
		close(block)
		text := slow.take()
		if got := strings.Count(text, "event: tick"); got != 1 || !strings.Contains(text, fmt.Sprintf(`{"t":%d,`, time.Now().Unix()-2)) {
			t.Errorf("after 30 s the slow client got %q, want the tick of the last second only", text)
		}
	})
}

// TestEvents checks the events of a stream and what changes in it.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		version, entries := live.Version{Number: 41}, []live.Notice{}
		n := start(t, r, "gw-1", live.Config{
			Newest: func(context.Context) (live.Version, error) { return version, nil },
			Notices: func(_ context.Context, after int64) ([]live.Notice, error) {
				var all []live.Notice
				for _, e := range entries {
					if e.ID > after {
						all = append(all, e)
					}
				}
				return all, nil
			},
		})
		defer n.stop()
		entry := func(id int64) live.Notice {
			return live.Notice{ID: id, Data: func(operate bool) any { return map[string]any{"id": id, "plain": operate} }}
		}
		entries = append(entries, entry(1))
		time.Sleep(2 * time.Second)
		one, two := n.connect(t, access.Operate, "?topics=overview,policy:login", nil), n.connect(t, access.Read, "?topics=policy:api", nil)
		first := one.take()
		for _, want := range []string{"retry: ", "event: nodes\n", `"name":"gw-1"`, "event: version\ndata: {\"version\":41}", "event: tick\n", "event: top\n"} {
			if !strings.Contains(first, want) {
				t.Errorf("the first events are %s, want %q", first, want)
			}
		}
		two.take()
		n.count("login", "", 3, enforce.Denied)
		n.count("api", "", 2, enforce.Admitted)
		time.Sleep(3 * time.Second)
		if text := one.take(); !strings.Contains(text, `"all":[2,3,0,0,0,0],"policies":{"api":[2,0,0,0,0,0],"login":[0,3,0,0,0,0]},"latency":[1`) {
			t.Errorf("got %s, want a tick with both policies", text)
		}
		if text := two.take(); !strings.Contains(text, `"policies":{"api":[2,0,0,0,0,0]}`) || strings.Contains(text, "login") {
			t.Errorf("got %s, want ticks with one policy", text)
		}
		version = live.Version{Number: 42, By: "mei"}
		entries = append(entries, entry(2))
		other := start(t, r, "gw-2", live.Config{})
		time.Sleep(3 * time.Second)
		text := one.take()
		for _, want := range []string{`event: version` + "\n" + `data: {"version":42,"by":"mei"}`, `"name":"gw-2"`, "policies of version 41, want 42", "event: audit\ndata: {\"id\":2,\"plain\":true}"} {
			if !strings.Contains(text, want) {
				t.Errorf("got %s, want %q", text, want)
			}
		}
		if text := two.take(); !strings.Contains(text, "event: audit\ndata: {\"id\":2,\"plain\":false}") || strings.Contains(text, `{"id":1`) {
			t.Errorf("got %s, want the new entry without plain keys, and no old one", text)
		}
		other.stop()
		time.Sleep(20 * time.Second)
		if text := one.take(); !strings.Contains(text, "\n:\n\n") || strings.Count(text, "event: top\n") < 4 || strings.Contains(text, "event: audit") || strings.Contains(text, "event: version") {
			t.Errorf("got %s in 20 s, want a comment, keys every 5 s, and nothing again", text)
		}
		time.Sleep(live.MaxStream)
		<-one.done
		two.cancel()
		<-two.done
	})
}

// TestStreamOverTCP checks that a stream outlasts the timeout of requests of a real server, and
// that a client that does not read is disconnected.
func TestStreamOverTCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil, "gw-1", live.Config{})
		defer n.stop()
		listener := pipes{make(chan net.Conn)}
		server := http.Server{Handler: n.mux, ReadTimeout: 30 * time.Second}
		go server.Serve(listener)
		dial := func() net.Conn {
			own, theirs := net.Pipe()
			listener.conns <- theirs
			fmt.Fprint(own, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
			return own
		}
		reader, stuck := dial(), dial()
		ticks := make(chan int)
		go func() {
			count := 0
			lines := bufio.NewScanner(reader)
			for lines.Scan() {
				if lines.Text() == "event: tick" {
					count++
				}
			}
			if err := lines.Err(); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("the events ended by %v", err)
			}
			ticks <- count
		}()
		time.Sleep(2 * time.Minute)
		reader.Close()
		if count := <-ticks; count < 118 {
			t.Errorf("%d ticks in 2 minutes", count)
		}
		stuck.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := bufio.NewReader(stuck).ReadString(0); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a client that read nothing for 2 minutes = %v, want the end of its connection", err)
		}
		close(listener.conns)
		server.Close()
	})
}

// TestTopics checks the parameter topics.
func TestTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, nil, "gw-1", live.Config{})
		defer n.stop()
		for query, status := range map[string]int{
			"?topics=everything": 400, "?topics=policy:": 400, "?topics=overview,policy:unknown": 404, "?topics=overview,,": 400,
			"?topics=policy:a,policy:b,policy:c,policy:d,policy:e,policy:f,policy:g,policy:h,policy:i": 400,
		} {
			c := n.connect(t, access.Read, query, nil)
			<-c.done
			if text := c.take(); c.status != status || !strings.Contains(text, `"field":"topics"`) {
				t.Errorf("%s = %d %s, want %d", query, c.status, text, status)
			}
		}
	})
}
