package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/redisstore"
)

// functions returns the handler of /v1/functions, which lists the functions that Go
// programs limit. They publish them in the Redis of conn.
func functions(conn func() redisstore.Conn, log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn := conn()
		if conn == nil {
			problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "want a Redis: programs publish their functions there (weir serve --store redis://…, and instances.Post in the programs)"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		all, err := instances.Read(ctx, conn)
		if err != nil {
			log.Error("list of limited functions unavailable", "error", err)
			problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "store unavailable"})
			return
		}
		if all == nil {
			all = []instances.Process{}
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(map[string]any{"processes": all}) // fails only if the client disconnected
	}
}
