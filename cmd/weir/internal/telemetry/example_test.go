package telemetry_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
)

func Example() {
	ctx := context.Background()
	t, err := telemetry.Start(ctx, telemetry.Config{
		Version: "v1.2.3",
		Getenv:  func(string) string { return "" }, // OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 sends
	})
	if err != nil {
		panic(err)
	}
	defer t.Shutdown(ctx)
	mux := http.NewServeMux()
	fmt.Println(t.Handler("gateway", mux) == http.Handler(mux), t.GRPC() == nil)
	// Output: true true
}
