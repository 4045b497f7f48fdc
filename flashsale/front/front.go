package front

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/template"
)

//go:embed files
var files embed.FS

// view is the input of the templates.
type view struct {
	Config
	Asks         bool // nginx with auth_request: it sees no response, and limit_req handles IPv4
	Lua          bool // nginx with Lua, which evaluates fewer expressions
	OnStoreError string
}

// KilledPaths returns the paths for which the kill switch is on, or would be.
func (v view) KilledPaths() []string {
	if v.Killed || len(v.KilledSales) == 0 {
		return []string{"/api/sales/*"}
	}
	var paths []string
	for _, id := range v.KilledSales {
		paths = append(paths, "/api/sales/"+id+"/*")
	}
	return paths
}

// Gateway returns a file for `weir serve`, which forwards the requests.
func (c Config) Gateway() (string, error) {
	if err := c.check(false, false, false); err != nil {
		return "", err
	}
	return render("gateway.weir.yaml", view{Config: c, OnStoreError: "local"})
}

// AuthRequest returns a complete configuration of nginx, and the file for the `weir
// serve` that it calls. nginx limits addresses with limit_req and calls Weir for the other
// limits.
func (c Config) AuthRequest() (nginx, weir string, err error) {
	if err := c.check(true, true, false); err != nil {
		return "", "", err
	}
	v := view{Config: c, Asks: true, OnStoreError: "local"}
	if nginx, err = render("asking.nginx.conf", v); err != nil {
		return "", "", err
	}
	weir, err = render("asking.weir.yaml", v)
	return nginx, weir, err
}

// Lua returns a complete configuration of an nginx that decides itself, and the file for `weir
// edge nginx`, whose output it includes as weir.conf.
func (c Config) Lua() (nginx, weir string, err error) {
	if err := c.check(true, false, true); err != nil {
		return "", "", err
	}
	// The workers of nginx cannot count in memory. If Redis fails, the shop's own limits
	// remain.
	v := view{Config: c, Lua: true, OnStoreError: "open"}
	if nginx, err = render("lua.nginx.conf", v); err != nil {
		return "", "", err
	}
	weir, err = render("lua.weir.yaml", v)
	return nginx, weir, err
}

func render(name string, v view) (string, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"quote": strconv.Quote, "list": list, "problem": problem, "quota": quota, "denied": denied, "conf": conf,
		"rateOf": rateOf, "burstOf": burstOf,
	}).ParseFS(files, "files/"+name, "files/policies.yaml", "files/shop.conf")
	if err != nil {
		return "", fmt.Errorf("front: %s: %w", name, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return "", fmt.Errorf("front: %s: %w", name, err)
	}
	return b.String(), nil
}

// list returns a list in YAML. JSON strings are YAML strings.
func list(texts []string) (string, error) {
	b, err := json.Marshal(texts)
	return string(b), err
}

// problem returns the body of the shop for a refusal.
func problem(status int, layer, reason, detail string, retry int) string {
	b := fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q`, http.StatusText(status), status, detail)
	if layer != "" {
		b += fmt.Sprintf(`,"layer":%q`, layer)
	}
	b += fmt.Sprintf(`,"reason":%q`, reason)
	if retry > 0 {
		b += fmt.Sprintf(`,"retry_after_ms":%d`, retry)
	}
	return b + "}\n"
}

// quota returns the body of Weir for a denial by a policy.
func quota(policy string) string {
	return fmt.Sprintf(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":[%q]}`, policy) + "\n"
}

// denied returns the response of a policy.
func denied(status int, layer, body string) (string, error) {
	b, err := json.Marshal(body)
	return fmt.Sprintf(`{ status: %d, content_type: application/problem+json, headers: { Flashsale-Layer: %s }, body: %s }`, status, layer, b), err
}

// conf quotes a text for single quotes in nginx.
func conf(text string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `\'`, "$", "").Replace(text)
}

// rateOf returns the rate of a limit in the format of limit_req.
func rateOf(limit string) string {
	rate, _, _ := strings.Cut(limit, " ")
	count, period, _ := strings.Cut(rate, "/")
	return count + "r/" + period
}

// burstOf returns one less than the burst of a limit, because limit_req counts the requests
// above the first.
func burstOf(limit string) int {
	_, burst, _ := strings.Cut(limit, " burst ")
	n, _ := strconv.Atoi(burst)
	return max(0, n-1)
}
