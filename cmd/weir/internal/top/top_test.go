package top

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

func numbers(values ...float64) (all []*float64) {
	for _, v := range values {
		all = append(all, &v)
	}
	return all
}

// example returns an overview with three policies; login has most denials.
func example() *overview {
	return &overview{
		Version: 42, Totals: totals{Admitted: 8412, Denied: 213, Shadow: 61}, Latency: quantiles{0.06, 0.9}, Live: 2,
		Policies: []*row{
			{Name: "api", Mode: "enforce", Percent: 100, Limits: []string{"10/s burst 20"}, Rate: 8300, Denied: 1},
			{Name: "login", Mode: "enforce", Percent: 10, Limits: []string{"5/m"}, Rate: 120, Denied: 21.6, Trend: numbers(0, 1, 2, 4)},
			{Name: "quiet", Mode: "shadow"},
		},
		Nodes: []node{{Name: "gw-2", Stale: true, SeenMS: 7000, Problem: "no data for 7 s"}, {Name: "gw-1", Self: true, Version: 42, Shares: 3}, {Name: "gw-3", Version: 41}, {Name: "gw-3", PID: 7, Version: 42}},
	}
}

// A screen is a model with the text that it shows.
type screen struct {
	*model
	asked []string // policies whose keys were requested
}

func newScreen(o *overview) *screen {
	s := &screen{}
	s.model = newModel(o, func(policy string) tea.Cmd {
		s.asked = append(s.asked, policy)
		return nil
	})
	return s
}

// send passes messages and keys, which are texts, to the model.
func (s *screen) send(msgs ...any) *screen {
	for _, msg := range msgs {
		switch msg {
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "space":
			msg = tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
		}
		if key, ok := msg.(string); ok {
			msg = tea.KeyPressMsg{Code: rune(key[0]), Text: key}
		}
		s.Update(msg)
	}
	return s
}

func (s *screen) text() string { return ansi.Strip(s.View().Content) }

// highlighted returns the selected line.
func (s *screen) highlighted() string {
	_, after, _ := strings.Cut(s.View().Content, reverse)
	line, _, _ := strings.Cut(after, "\n")
	return ansi.Strip(line)
}

func TestTable(t *testing.T) {
	o := example()
	o.Programs = []program{{Service: "shop"}, {Service: "nginx", Host: "gw-1", PID: 9, Problem: "1 adjustments of keys are not applied"}}
	s := newScreen(o).send(tea.WindowSizeMsg{Width: 120, Height: 30})
	text := s.text()
	for _, want := range []string{
		"2 of 4 nodes, 2 programs, policies v42  Live", "admitted 8,412/s  denied 213/s 2.5%", "p50 0.06 ms  p99 0.90 ms",
		"login     120        22  18.0%", "▁▃▅█", "enforce 10%", "10/s burst 20", "stale", "no data for 7 s", "gw-1 *", "shares: 3", "gw-3:7", "nginx gw-1:9", "1 adjustments of keys", "q quit",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen has no %q:\n%s", want, text)
		}
	}
	if strings.Index(text, "login") > strings.Index(text, "api") {
		t.Errorf("want the policy with most denials first:\n%s", text)
	}
	for _, size := range [][2]int{{120, 30}, {60, 14}, {20, 5}, {1, 1}} {
		s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		lines := strings.Split(s.text(), "\n")
		if len(lines) != size[1] && size[1] > 1 {
			t.Errorf("%d lines in a terminal of %d", len(lines), size[1])
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > size[0] {
				t.Errorf("%q is wider than %d", line, size[0])
			}
		}
	}
}

// TestSelection checks that the selected policy stays selected when the order changes, and that
// the first one is selected before the user chose.
func TestSelection(t *testing.T) {
	s := newScreen(example())
	if got := s.highlighted(); !strings.HasPrefix(got, "login") {
		t.Errorf("selected %q, want the first", got)
	}
	busy := tickMsg{T: 1, All: [6]float64{admitted: 10, denied: 5000}, Policies: map[string][6]float64{"api": {denied: 5000}, "new": {admitted: 10}}}
	s.send(busy)
	if got := s.highlighted(); !strings.HasPrefix(got, "api") {
		t.Errorf("selected %q after a tick, want the new first one", got)
	}
	s.send("j", "down")
	chosen := s.selected
	s.send(tickMsg{T: 2, Policies: map[string][6]float64{chosen: {denied: 1e6}}})
	if got := s.highlighted(); s.selected != chosen || !strings.HasPrefix(got, chosen) {
		t.Errorf("selected %q, want %s still", got, chosen)
	}
	if !strings.Contains(s.text(), "new ") {
		t.Errorf("want the new policy of the tick:\n%s", s.text())
	}
	s.send("k", "k", "k", "k")
	if s.selected != s.overview.Policies[0].Name {
		t.Errorf("selected %s after going up, want the first", s.selected)
	}
	many := example()
	for i := range 100 {
		many.Policies = append(many.Policies, &row{Name: fmt.Sprintf("p%03d", i)})
	}
	s = newScreen(many).send("G")
	if got := s.highlighted(); !strings.HasPrefix(got, "quiet") {
		t.Errorf("selected %q at the end of a long list, want it on the screen", got)
	}
}

func TestStates(t *testing.T) {
	s := newScreen(example())
	s.last = time.Date(2026, 1, 2, 12, 3, 4, 0, time.Local)
	if text := s.send(lostMsg{io.EOF}).text(); !strings.Contains(text, "Reconnecting, data from 12:03:04") {
		t.Errorf("after a disconnect:\n%s", text)
	}
	s.send("space", tickMsg{T: 5, All: [6]float64{denied: 77}})
	if text := s.text(); !strings.Contains(text, "Paused, data from 12:03:04") || strings.Contains(text, "denied 77/s") {
		t.Errorf("paused:\n%s", text)
	}
	s.send("space", tickMsg{T: 6, All: [6]float64{admitted: 23, denied: 77}})
	if text := s.text(); !strings.Contains(text, "Live") || !strings.Contains(text, "denied 77/s 77.0%") {
		t.Errorf("after the pause:\n%s", text)
	}
	if got := s.total(); !strings.Contains(got, "177 requests, 154 denied (87.0%)") {
		t.Errorf("total = %q, want all ticks", got)
	}
	s.send(nodesMsg{Nodes: []node{{Name: "gw-9"}}, Problem: "store unavailable"}, versionMsg{43})
	if text := s.text(); !strings.Contains(text, "1 of 1 nodes, policies v43") || !strings.Contains(text, "gw-9") || !strings.Contains(text, "! store unavailable") {
		t.Errorf("after other nodes:\n%s", text)
	}
	if cmd := s.press("q"); cmd == nil || cmd() != (tea.QuitMsg{}) {
		t.Error("q does not quit")
	}
}

func TestKeysOfPolicy(t *testing.T) {
	s := newScreen(example()).send("enter")
	if len(s.asked) != 1 || s.asked[0] != "login" || !strings.Contains(s.text(), "loading") {
		t.Errorf("asked for %v, want the keys of login:\n%s", s.asked, s.text())
	}
	s.send(keysMsg{"api", &keyList{Policy: "api"}, nil}) // late
	list := &keyList{Policy: "login", Window: 600, Coverage: 0.5, Denied: []key{{ID: "ab12", Key: []string{"203.0.113.9", "\x1b[2Jevil\n"}, Count: 1204, Error: 3}, {ID: "cd34"}}}
	s.send(keysMsg{"login", list, nil})
	text := s.text()
	for _, want := range []string{"login, last 10m0s, coverage 50.0%", "203.0.113.9 \uFFFD[2Jevil\uFFFD  1,204      3", "#cd34"} {
		if !strings.Contains(text, want) {
			t.Errorf("keys have no %q:\n%s", want, text)
		}
	}
	if strings.Contains(s.View().Content, "\x1b[2J") {
		t.Error("a key controls the terminal")
	}
	for i := range keysEvery {
		s.send(tickMsg{T: int64(i)})
	}
	if len(s.asked) != 2 {
		t.Errorf("asked %d times in %d ticks, want again after %d", len(s.asked), keysEvery, keysEvery)
	}
	s.send(keysMsg{"login", nil, fmt.Errorf("no store")})
	if !strings.Contains(s.text(), "! no store") {
		t.Errorf("want the error:\n%s", s.text())
	}
	if text := s.send("esc").text(); !strings.Contains(text, "POLICY") {
		t.Errorf("want the table again:\n%s", text)
	}
}

// serve returns a client of a server whose stream sends one tick and ends.
func serve(t *testing.T) Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/overview", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"title":"Unauthorized","detail":"want a token"}`)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"totals": map[string]any{"denied": 1}, "policies": []any{map[string]any{"name": "login"}}, "nodes": []any{}})
	})
	mux.HandleFunc("/v1/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "retry: 1\n\n:\n\nevent: tick\ndata: {\"t\":7,\"all\":[1,2,0,0,0,0],\"policies\":{\"login\":[1,2,0,0,0,0]},\"latency\":[0.1,0.2]}\n\nevent: audit\ndata: {}\n\n")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Client{URL: u, Token: "secret"}
}

// TestFeed checks that the stream is opened again after its end.
func TestFeed(t *testing.T) {
	c := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	msgs := make(chan tea.Msg)
	done := make(chan struct{})
	go func() {
		feed(ctx, c, func(m tea.Msg) {
			select {
			case msgs <- m:
			case <-ctx.Done():
			}
		})
		close(done)
	}()
	for i, want := range []string{"overviewMsg", "tickMsg", "lostMsg", "overviewMsg", "tickMsg"} {
		m := <-msgs
		if got := fmt.Sprintf("%T", m); got != "top."+want {
			t.Errorf("message %d is %s, want %s", i, got, want)
		}
		if tick, ok := m.(tickMsg); ok && (tick.T != 7 || tick.Policies["login"][denied] != 2) {
			t.Errorf("tick = %+v", tick)
		}
	}
	cancel()
	<-done
}

func TestPrint(t *testing.T) {
	c := serve(t)
	var out, errs bytes.Buffer
	if err := Once(t.Context(), c, &out); err != nil || !strings.Contains(out.String(), "login") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("Once = %v: %s", err, &out)
	}
	out.Reset()
	if err := Lines(t.Context(), c, 2, &out, &errs); err != nil || strings.Count(out.String(), "\n") != 2 || !json.Valid([]byte(strings.Split(out.String(), "\n")[0])) {
		t.Errorf("Lines = %v: %s", err, &out)
	}
	c.Token = "wrong"
	if err := Once(t.Context(), c, &out); err == nil || !strings.Contains(err.Error(), "Unauthorized: want a token") {
		t.Errorf("Once with a wrong token = %v", err)
	}
	if err := Lines(t.Context(), c, 2, &out, &errs); err == nil {
		t.Error("Lines with a wrong token succeeded")
	}
}
