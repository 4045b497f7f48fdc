package decisionlog_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/decisionlog"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

func Example() {
	p, err := policy.New(policy.Config{
		Name: "api", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	if err != nil {
		panic(err)
	}
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log, err := decisionlog.New(decisionlog.Config{
		Log:    slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: noTime})),
		Denied: 1, Salt: []byte("a secret"),
	})
	if err != nil {
		panic(err)
	}
	log.Observe(context.Background(), "gateway", enforce.Event{
		Policy: p, Key: "api|11:203.0.113.7", Outcome: enforce.Denied,
		Decision: weir.Decision{Limit: weir.MustLimit("10/s"), RetryAfter: 100_000_000},
	})
	// Output: level=INFO msg=decision interface=gateway policy=api outcome=denied limit="10/s burst 10" remaining=0 retry_after=100ms key=2673ff8fd7263ae3
}
