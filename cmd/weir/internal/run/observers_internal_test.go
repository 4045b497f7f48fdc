package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
)

// TestObserveRESP checks that each decision of the RESP interface counts once in every metric,
// and only those that consume tokens in the traffic.
func TestObserveRESP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := newObservers(t.Context(), &config.Config{}, "", func(string) string { return "" }, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer o.close(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go o.traffic.Run(ctx)
		observe := o.resp()
		for _, e := range []respd.Event{
			{Decision: weir.Decision{OK: true}},
			{},
			{Decision: weir.Decision{OK: true}, Request: weir.Request{Verb: weir.Peek}},
			{Decision: weir.Decision{OK: true}, Request: weir.Request{Verb: weir.Return}},
			{Err: errors.New("unavailable")},
			{Err: fmt.Errorf("no: %w", weir.ErrInvalid)},
			{Err: fmt.Errorf("no: %w", context.Canceled)},
		} {
			e.Took = time.Millisecond
			observe(e)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		sum := traffic.Counts{}
		for _, row := range o.traffic.History().Series("interface:resp", time.Now().Add(-time.Minute)).Rows {
			if row != nil {
				for i, n := range row.Counts {
					sum[i] += n
				}
			}
		}
		if want := (traffic.Counts{traffic.Admitted: 1, traffic.Denied: 1, traffic.Overloaded: 1}); sum != want {
			t.Errorf("traffic %v, want %v", sum, want)
		}
		w := httptest.NewRecorder()
		o.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		text, _ := io.ReadAll(w.Body)
		for _, want := range []string{
			`weir_resp_commands_total{command="cl.throttle",result="ok"} 3`,
			`weir_resp_commands_total{command="cl.throttle",result="limited"} 1`,
			`weir_resp_commands_total{command="cl.throttle",result="error"} 3`,
			`weir_decision_duration_seconds_count{interface="resp"} 7`,
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("metrics lack %s", want)
			}
		}
	})
}
