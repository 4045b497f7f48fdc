package expr_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile/expr"
)

// TestClaims checks expressions that read claims of a token, and that a loop reads each once.
func TestClaims(t *testing.T) {
	r := sample()
	token := func(payload string) string { return base64.RawURLEncoding.EncodeToString([]byte(payload)) }
	r.headers["Authorization"] = []string{"Bearer e30." + token(`{"sub":"ann","plan":"gold","n":7,"org":{"id":"acme"}}`) + ".x"}
	r.headers["X-Payload"] = []string{token(`{"sub":"bob"}`)}
	for text, want := range map[string]bool{
		`claims.sub == "ann"`:                                 true,
		`claims["org.id"] + claims["n"] == "acme7"`:           true,
		`claims["sub@X-Payload"] == "bob"`:                    true,
		`claims.absent == ""`:                                 true,
		`"plan" in claims && !("absent" in claims)`:           true,
		`["a", "ann"].exists(x, x == claims.sub)`:             true,
		`claims.plan == "free" || request.path == "/nowhere"`: false,
	} {
		e, err := expr.Condition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r.asked = nil
		if got, err := e.Eval(r); err != nil || got != want {
			t.Errorf("%s = %t, %v, want %t", text, got, err, want)
		}
		if n := strings.Count(fmt.Sprint(r.asked), "header"); n > 2 {
			t.Errorf("%s: read the token %d times, want once for each claim", text, n)
		}
	}
	r.headers["Authorization"] = nil
	if e, err := expr.Condition(`claims.sub == ""`); err != nil {
		t.Error(err)
	} else if ok, err := e.Eval(r); !ok || err != nil {
		t.Errorf("the claim of a request without a token is not empty: %v", err)
	}
	for text, want := range map[string]string{
		`claims[request.method] == "a"`: `want the name of a claim in quotes, such as claims["sub"]`,
		`claims.size() > 0`:             `want one value such as claims["x"]`,
		`claims[""] == "a"`:             `want the name of a claim, such as claims["sub"]`,
		`claims.a + claims.b + claims.c + claims.d + claims.e + claims.f + claims.g + claims.h + claims.i == ""`: "want at most 8 different claims",
	} {
		if _, err := expr.Condition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}
