package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// The back-off between two connections.
const (
	minRetry = time.Second
	maxRetry = 5 * time.Second
)

// Watch shows the traffic until the user quits or ctx ends. in and out are a terminal.
func Watch(ctx context.Context, c Client, in io.Reader, out io.Writer) error {
	first, err := c.overview(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(first, func(policy string) tea.Cmd {
		return func() tea.Msg {
			k, err := c.keys(ctx, policy)
			return keysMsg{policy, k, err}
		}
	})
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithFPS(10))
	go feed(ctx, c, p.Send)
	last, err := p.Run()
	if ctx.Err() != nil {
		err = nil // ended from outside
	}
	if m, ok := last.(*model); ok && err == nil {
		_, err = fmt.Fprintln(out, m.total())
	}
	return err
}

// The messages of feed.
type (
	overviewMsg struct{ *overview }
	tickMsg     tick
	nodesMsg    struct {
		Nodes    []node
		Programs []program
		Problem  string
	}
	versionMsg struct{ Version int64 }
	lostMsg    struct{ err error }
)

// feed follows the events, and connects again with a back-off, until ctx ends. A new connection
// begins with an overview, which has what was missed.
func feed(ctx context.Context, c Client, send func(tea.Msg)) {
	retry := minRetry
	for {
		o, err := c.overview(ctx)
		if err == nil {
			send(overviewMsg{o})
			err = c.follow(ctx, func(event string, data []byte) {
				if msg := decode(event, data); msg != nil {
					retry = minRetry
					send(msg)
				}
			})
		}
		if ctx.Err() != nil {
			return
		}
		send(lostMsg{err})
		wait := time.NewTimer(retry)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		retry = min(2*retry, maxRetry)
	}
}

// decode returns the message of an event; nil for others.
func decode(event string, data []byte) tea.Msg {
	var err error
	var msg tea.Msg
	switch event {
	case "tick":
		var t tickMsg
		err = json.Unmarshal(data, &t)
		msg = t
	case "nodes":
		var n nodesMsg
		err = json.Unmarshal(data, &n)
		msg = n
	case "version":
		var v versionMsg
		err = json.Unmarshal(data, &v)
		msg = v
	}
	if err != nil {
		return nil
	}
	return msg
}
