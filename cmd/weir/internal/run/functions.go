package run

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/guard/instances"
)

// functions answers with what Go programs tell of the functions that they limit.
func (p *Program) functions(w http.ResponseWriter, r *http.Request) {
	conn := p.conn()
	if conn == nil {
		problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "programs tell it in Redis: want --store redis://…, and roster.Post in the programs"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	all, err := instances.Read(ctx, conn)
	if err != nil {
		p.log.Error("the functions that programs limit are not to be had", "error", err)
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the store does not answer"})
		return
	}
	if all == nil {
		all = []instances.Process{}
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(map[string]any{"processes": all}) // the client has gone away
}
