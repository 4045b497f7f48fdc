package office

import "github.com/floodweir/weir/flashsale/account"

// Public is the role of routes without a session.
const Public = public

// Needed returns the table of roles.
func Needed() map[string]account.Role { return needed() }

// Patterns returns the routes of o.
func Patterns(o *Office) []string { return o.router.patterns }
