package office

import (
	"fmt"
	"net/http"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// public marks a route that needs no session.
const public account.Role = "public"

// needed returns the role that each route needs. A route that is missing here needs Owner, and
// a test fails.
func needed() map[string]account.Role {
	return map[string]account.Role{
		"POST /api/login": public,
		"GET /healthz":    public,
		"GET /readyz":     public,
		"GET /metrics":    public, // has a token of its own

		"POST /api/logout":      account.View,
		"GET /api/me":           account.View,
		"POST /api/me/password": account.View,

		"GET /api/sales":                                      account.View,
		"GET /api/sales/{sale}":                               account.View,
		"GET /api/sales/{sale}/board":                         account.View,
		"GET /api/sales/{sale}/orders":                        account.View, // contact data is masked below Service
		"GET /api/sales/{sale}/report.csv":                    account.View, // the same
		"GET /api/sales/{sale}/orders.jsonl":                  account.View, // the same
		"GET /api/sales/{sale}/log":                           account.View,
		"GET /api/sales/{sale}/product":                       account.View,
		"GET /api/sales/{sale}/pictures/{hash}":               account.View,
		"POST /api/sales/{sale}/check":                        account.View,    // changes nothing
		"GET /api/sales/{sale}/networks":                      account.Service, // addresses of buyers
		"POST /api/sales/{sale}/orders/{reservation}/cancel":  account.Service,
		"POST /api/sales/{sale}/orders/{reservation}/refund":  account.Service,
		"POST /api/sales":                                     account.Manage,
		"PUT /api/sales/{sale}":                               account.Manage,
		"POST /api/sales/{sale}/copy":                         account.Manage,
		"POST /api/sales/{sale}/warm":                         account.Manage,
		"POST /api/sales/{sale}/expose":                       account.Manage,
		"POST /api/sales/{sale}/pause":                        account.Manage,
		"POST /api/sales/{sale}/resume":                       account.Manage,
		"POST /api/sales/{sale}/kill":                         account.Manage,
		"POST /api/sales/{sale}/end":                          account.Manage,
		"POST /api/sales/{sale}/stock":                        account.Manage,
		"POST /api/sales/{sale}/reconcile":                    account.Manage,
		"PUT /api/sales/{sale}/product":                       account.Manage,
		"POST /api/sales/{sale}/pictures":                     account.Manage,
		"POST /api/sales/{sale}/pictures/{hash}/remove":       account.Manage,
		"PUT /api/sales/{sale}/variants":                      account.Manage,
		"POST /api/sales/{sale}/variants/remove":              account.Manage,
		"GET /api/webhooks":                                   account.View,
		"GET /api/webhooks/{endpoint}/events":                 account.View,
		"GET /api/webhooks/{endpoint}/events/{event}":         account.View,
		"POST /api/webhooks":                                  account.Manage,
		"POST /api/webhooks/{endpoint}/rotate":                account.Manage,
		"POST /api/webhooks/{endpoint}/enable":                account.Manage,
		"POST /api/webhooks/{endpoint}/disable":               account.Manage,
		"POST /api/webhooks/{endpoint}/remove":                account.Manage,
		"POST /api/webhooks/{endpoint}/replay":                account.Manage,
		"POST /api/webhooks/{endpoint}/events/{event}/replay": account.Manage,
		"POST /api/webhooks/{endpoint}/events/{event}/skip":   account.Manage,
		"GET /api/accounts":                                   account.Owner,
		"GET /api/accounts/log":                               account.Owner,
		"POST /api/accounts":                                  account.Owner,
		"POST /api/accounts/role":                             account.Owner,
		"POST /api/accounts/password":                         account.Owner,
		"POST /api/accounts/disable":                          account.Owner,
		"POST /api/accounts/enable":                           account.Owner,
	}
}

// router adds routes to an Office. It is the only code that calls its ServeMux, so that no route
// is without a role.
type router struct {
	office   *Office
	roles    map[string]account.Role
	patterns []string // those added, in order
}

// role returns the role that a route needs.
func (r *router) role(pattern string) account.Role {
	if role, ok := r.roles[pattern]; ok {
		return role
	}
	return account.Owner
}

// handle adds a route with a JSON body.
func (r *router) handle(pattern string, f func(*visit)) { r.add(pattern, withBody(r.office, f)) }

// add adds a route whose handler reads the body itself.
func (r *router) add(pattern string, f func(*visit)) {
	role := r.role(pattern)
	r.patterns = append(r.patterns, pattern)
	r.office.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		if v, ok := visitOf(r.office, w, req); ok && v.permitted(role) {
			f(v)
		}
	})
}

// public adds a route that needs no session.
func (r *router) public(pattern string, f http.HandlerFunc) {
	if r.role(pattern) != public {
		panic(fmt.Sprintf("office: %s: the route needs a role", pattern)) // a bug of the caller
	}
	r.patterns = append(r.patterns, pattern)
	r.office.mux.HandleFunc(pattern, f)
}

// permitted reports whether the account of a visit may do what role may do, and refuses if not.
func (v *visit) permitted(role account.Role) bool {
	if v.account.Role.Includes(role) {
		return true
	}
	reasons := map[account.Role]sale.Reason{account.Service: layers.NeedsService, account.Manage: layers.NeedsManage}
	reason, ok := reasons[role]
	if !ok {
		reason = layers.NeedsOwner
	}
	layers.Refusal{Reason: reason, Detail: fmt.Sprintf("this needs the role %s; the account %s has the role %s", role, v.account.Name, v.account.Role)}.Write(v.w)
	return false
}

// contacts reports whether the account of a visit may see contact data of buyers.
func (v *visit) contacts() bool { return v.account.Role.Includes(account.Service) }
