package front

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed files
var files embed.FS

// A view is what the files are made of.
type view struct {
	Config
	Asks         bool // nginx asks: no answer is seen, limit_req has IPv4
	OnStoreError string
}

// Gateway is a file for `weir serve`: the requests themselves go through it.
func (c Config) Gateway() (string, error) {
	if err := c.check(false, false); err != nil {
		return "", err
	}
	return render("gateway.weir.yaml", view{Config: c, OnStoreError: "local"})
}

// Asking is a configuration for the http block of nginx, which has limit_req for addresses
// and asks about the rest, and the file for the `weir serve` that it asks.
func (c Config) AuthRequest() (nginx, weir string, err error) {
	if err := c.check(true, false); err != nil {
		return "", "", err
	}
	v := view{Config: c, Asks: true, OnStoreError: "local"}
	if nginx, err = render("asking.nginx.conf", v); err != nil {
		return "", "", err
	}
	weir, err = render("asking.weir.yaml", v)
	return nginx, weir, err
}

// Lua is a configuration for the http block of an nginx that decides itself, beside what
// `weir edge nginx` makes of the file that is returned with it.
func (c Config) Lua() (nginx, weir string, err error) {
	if err := c.check(false, true); err != nil {
		return "", "", err
	}
	// The workers of nginx have no memory to count in. The shop's own limits stand behind.
	v := view{Config: c, OnStoreError: "open"}
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

// list is a list of YAML. Texts in JSON are texts in YAML.
func list(texts []string) (string, error) {
	b, err := json.Marshal(texts)
	return string(b), err
}

// problem is the body that the shop has for a refusal.
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

// quota is the body that Weir has for a policy that denies.
func quota(policy string) string {
	return fmt.Sprintf(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":[%q]}`, policy) + "\n"
}

// denied is what a policy answers.
func denied(status int, layer, body string) (string, error) {
	b, err := json.Marshal(body)
	return fmt.Sprintf(`{ status: %d, content_type: application/problem+json, headers: { Flashsale-Layer: %s }, body: %s }`, status, layer, b), err
}

// conf is a text between single quotes of nginx.
func conf(text string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `\'`, "$", "").Replace(text)
}

// rateOf is a limit's rate as limit_req says it.
func rateOf(limit string) string {
	rate, _, _ := strings.Cut(limit, " ")
	count, period, _ := strings.Cut(rate, "/")
	return count + "r/" + period
}

// burstOf is one less than a limit's burst, since limit_req counts those above the first.
func burstOf(limit string) int {
	_, burst, _ := strings.Cut(limit, " burst ")
	n, _ := strconv.Atoi(burst)
	return max(0, n-1)
}

// TokenBegins is how every admission token of the sale begins: its version and the sale's
// ID, as far as these fill whole letters.
func (s Sale) TokenPrefix() string {
	head := append([]byte{1, byte(len(s.ID))}, s.ID...)
	return base64.RawURLEncoding.EncodeToString(head[:len(head)/3*3])
}

// Since is a regular expression for the seconds of $msec from the start of the sale on.
func (s Sale) ElapsedPattern() string {
	at := strconv.FormatInt(max(1_000_000_000, s.StartsAt.Add(time.Second-1).Unix()), 10)
	choices := []string{at + `\.`, `\d{` + strconv.Itoa(len(at)+1) + `,}\.`}
	for i, d := range []byte(at) {
		if d < '9' {
			choices = append(choices, fmt.Sprintf(`%s[%c-9]\d{%d}\.`, at[:i], d+1, len(at)-i-1))
		}
	}
	return "(?:" + strings.Join(choices, "|") + ")"
}

// Timed reports whether it is known when the sale begins.
func (s Sale) HasStart() bool { return !s.StartsAt.IsZero() }
