package protection

import (
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/protect"
)

// An upstream is an upstream of the gateway with its protections.
type upstream struct {
	Name        string  `json:"upstream"`
	Route       string  `json:"route"` // the first that has them
	Protections []state `json:"protections"`
}

// A state is the state of one protection.
type state struct {
	Name  string  `json:"name"`
	State string  `json:"state"`
	Open  float64 `json:"open_ms"` // until an open breaker admits a trial
}

// States returns the handler of GET /v1/upstreams: the protections in force on this node.
func States(current func() *Set) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all := []upstream{}
		current().Upstreams(func(name, route string, protections []protect.Protection) {
			u := upstream{Name: name, Route: route, Protections: []state{}}
			for _, one := range protections {
				s := state{Name: one.Name(), State: one.State()}
				if m, ok := one.(protect.Measured); ok {
					s.Open = float64(m.Read().Open.Milliseconds())
				}
				u.Protections = append(u.Protections, s)
			}
			all = append(all, u)
		})
		problem.WriteJSON(w, map[string]any{"upstreams": all})
	})
}
