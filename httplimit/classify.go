package httplimit

import (
	"net/http"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// Classify returns [enforce.Classify] for requests. It is for the Class and Exempt of
// [ProtectConfig].
func Classify(set *policy.Set, client ClientAddress) func(*http.Request) string {
	class := enforce.Classify(set)
	return func(r *http.Request) string { return class(&attributes{r: r, client: &client}) }
}
