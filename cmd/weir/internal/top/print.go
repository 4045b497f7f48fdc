package top

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// onceTrend is the width of the sparklines of Once.
const onceTrend = 30

// Once prints one table.
func Once(ctx context.Context, c Client, w io.Writer) error {
	o, err := c.overview(ctx)
	if err != nil {
		return err
	}
	lines := append(o.summary("at "+plain(o.At)), "")
	lines = append(append(lines, o.policyLines(onceTrend)...), "")
	for _, line := range append(lines, o.nodeLines()...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Lines prints the response of /v1/overview in one line every second, count times or without an end
// if 0. The first request must succeed. After that it reports an interruption to errors, and goes
// on.
func Lines(ctx context.Context, c Client, count int, w, errors io.Writer) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	down := false
	for n := 0; ; {
		data, err := c.get(ctx, nil, "v1", "overview")
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && n == 0:
			return err
		case err != nil && !down:
			down = true
			fmt.Fprintf(errors, "weir: top: %v; reconnecting\n", err)
		case err == nil:
			down = false
			var line bytes.Buffer
			if err := json.Compact(&line, data); err != nil {
				return fmt.Errorf("%s: %w", c.URL.Redacted(), err)
			}
			line.WriteByte('\n')
			if _, err := w.Write(line.Bytes()); err != nil {
				return err
			}
			if n++; n == count {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}
