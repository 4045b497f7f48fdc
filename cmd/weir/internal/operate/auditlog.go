package operate

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

const jsonLines = "application/x-ndjson"

// Entries serves GET /v1/audit. As JSON lines it has all selected entries, unless there is a limit.
func (o *Operator) Entries(w http.ResponseWriter, r *http.Request) {
	f, fault := filter(r.URL.RawQuery)
	if fault != nil {
		fault.Write(w, http.StatusBadRequest)
		return
	}
	lines := strings.Contains(r.Header.Get("Accept"), jsonLines)
	most := f.Limit
	if lines && most == 0 {
		most = audit.Keep
	}
	plain, encoder := operates(r), json.NewEncoder(w)
	for sent := 0; ; {
		if lines {
			f.Limit = min(most-sent, audit.MaxLimit)
		}
		page, err := o.c.Audit.Read(r.Context(), f)
		if err != nil {
			if sent == 0 {
				problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "audit log unavailable: " + err.Error()})
			}
			return
		}
		for i := range page {
			page[i] = o.c.Audit.Shown(page[i], plain)
		}
		if !lines {
			problem.WriteJSON(w, map[string]any{"entries": page})
			return
		}
		w.Header().Set("Content-Type", jsonLines)
		for _, e := range page {
			if encoder.Encode(e) != nil {
				return // the client disconnected
			}
		}
		if sent += len(page); len(page) < f.Limit || sent == most {
			return
		}
		f.Before = page[len(page)-1].ID
	}
}

// filter reads the parameters of GET /v1/audit.
func filter(query string) (f audit.Filter, fault *problem.FieldError) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return f, problem.Invalid("query", quote(query), "parameters as in ?policy=login&limit=10")
	}
	texts := map[string]*string{"policy": &f.Policy, "actor": &f.Actor, "action": &f.Action, "key_id": &f.KeyID}
	for name, all := range values {
		if len(all) > 1 {
			return f, problem.Invalid(name, strconv.Itoa(len(all))+" of them", "one")
		}
		n, err := strconv.ParseInt(all[0], 10, 64)
		switch to := texts[name]; {
		case to != nil:
			*to = all[0]
		case name == "before" && err == nil && n > 0:
			f.Before = n
		case name == "before":
			return f, problem.Invalid(name, quote(all[0]), "the id of an entry")
		case name == "limit" && err == nil && n > 0 && n <= audit.Keep:
			f.Limit = int(n)
		case name == "limit":
			return f, problem.Invalid(name, quote(all[0]), "1 to "+strconv.Itoa(audit.Keep))
		default:
			return f, problem.Invalid("query", quote(name), "policy, actor, action, key_id, before and limit")
		}
	}
	return f, nil
}
