package budget

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/floodweir/weir/internal/fault"
)

// A Warning configures at which use of its limits a budget warns.
type Warning struct {
	// Budget is the name of the budget. That of a level is the name of its policy without Budget
	// and a dot.
	Budget string

	// At are percentages of a limit, from 1 to 100, each once. Use at or above the smallest is
	// reported in responses.
	At []int

	// Webhook, if not empty, is the https URL to which the program sends each percentage of At
	// that is reached, once for each key and period. It has no user and no fragment.
	Webhook string

	// AllowHTTP accepts the scheme http for other hosts than loopback addresses and localhost.
	AllowHTTP bool

	// Secret signs what is sent: 16 to 1,024 bytes, as text or, after "whsec_", in base64. It is
	// required with a Webhook.
	Secret string
}

// The accepted lengths of a secret in bytes.
const (
	minSecret = 16
	maxSecret = 1024
)

func (w *Warning) check(f *fault.Collector) {
	if w == nil {
		return
	}
	if len(w.At) == 0 {
		f.Add("warn.at", "", "want percentages such as [80, 90]")
	}
	for i, n := range w.At {
		if n < 1 || n > 100 || slices.Contains(w.At[:i], n) {
			f.Add("warn.at", fmt.Sprint(n), "want percentages from 1 to 100, each once")
		}
	}
	if w.Webhook == "" {
		if w.Secret != "" {
			f.Add("warn.secret", "", "want webhook with it")
		}
		return
	}
	if want := w.checkURL(); want != "" {
		f.Add("warn.webhook", fault.Quote(w.Webhook), "%s", want)
	}
	if n := len(w.Key()); n < minSecret || n > maxSecret {
		f.Add("warn.secret", "", "want a secret of %d to %d bytes, as text or, after whsec_, in base64", minSecret, maxSecret)
	}
}

// checkURL returns the accepted form of the URL if it is invalid.
func (w *Warning) checkURL() string {
	u, err := url.Parse(w.Webhook)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || len(w.Webhook) > 2048:
		return "want a URL such as https://hooks.example.com/budget"
	case u.User != nil || u.Fragment != "":
		return "want a URL without user and fragment: requests are signed by the secret"
	case u.Scheme == "http" && !w.AllowHTTP && !loopback(u.Hostname()):
		return "want https, which http outside of this host is not, or allow_http: true"
	}
	return ""
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}

// Key returns the key of the signature, the bytes of Secret; nil if it is invalid base64.
func (w *Warning) Key() []byte {
	text, encoded := strings.CutPrefix(w.Secret, "whsec_")
	if !encoded {
		return []byte(text)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return key
}

// Least returns the smallest percentage of At.
func (w *Warning) Least() int { return slices.Min(w.At) }

// Level returns the name of a level by the name of its policy.
func (w *Warning) Level(policy string) string { return strings.TrimPrefix(policy, w.Budget+".") }

// Reached reports whether use of n tokens of a limit reaches a percentage of it.
func (w *Warning) Reached(percentage int, n, limit int64) bool {
	// Both are at most 2^53, so the products fit.
	return limit > 0 && n*100 >= int64(percentage)*limit
}
