package run

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/floodweir/weir/failover"
)

// TestLogChanges checks that the last line about an overload or an outage has all its requests,
// also those that a change reported before.
func TestLogChanges(t *testing.T) {
	var out bytes.Buffer
	changed := logChanges(slog.New(slog.NewTextHandler(&out, nil)))
	for _, c := range []failover.Change{
		{State: failover.Up, Overloaded: true, Overload: 1},
		{State: failover.Up},
		{State: failover.Slow, Unavailable: 2},
		{State: failover.Slow, Overloaded: true, Overload: 1},
		{State: failover.Down, Overloaded: true, Unavailable: 3, Overload: 4},
		{State: failover.Up, Unavailable: 1},
	} {
		changed(c)
	}
	for _, want := range []string{`"process no longer overloaded" rejected=1`, `"store available again" undecided=6`, `"process no longer overloaded" rejected=5`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line with %s in\n%s", want, &out)
		}
	}
}
