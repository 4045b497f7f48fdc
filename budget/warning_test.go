package budget_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
)

func TestWarningConfig(t *testing.T) {
	const secret, hook = "0123456789abcdef", "https://hooks.example.com/budget"
	for _, test := range []struct {
		w    budget.Warning
		want string // of the error; "" if valid
	}{
		{budget.Warning{At: []int{80, 90}}, ""},
		{budget.Warning{At: []int{100}, Webhook: hook + "?a=b", Secret: secret}, ""},
		{budget.Warning{At: []int{1}, Webhook: "http://127.0.0.1:8080/", Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="}, ""},
		{budget.Warning{At: []int{1}, Webhook: "http://localhost/", Secret: secret}, ""},
		{budget.Warning{At: []int{1}, Webhook: "http://hooks.internal/", AllowHTTP: true, Secret: secret}, ""},
		{budget.Warning{}, "warn.at: want percentages"},
		{budget.Warning{At: []int{0}}, "warn.at: 0: want percentages from 1 to 100"},
		{budget.Warning{At: []int{80, 101}}, "warn.at: 101"},
		{budget.Warning{At: []int{80, 80}}, "each once"},
		{budget.Warning{At: []int{80}, Secret: secret}, "want webhook with it"},
		{budget.Warning{At: []int{80}, Webhook: hook}, "want a secret of 16"},
		{budget.Warning{At: []int{80}, Webhook: hook, Secret: "whsec_????????????????????"}, "want a secret of 16"},
		{budget.Warning{At: []int{80}, Webhook: "http://hooks.example.com/", Secret: secret}, "want https"},
		{budget.Warning{At: []int{80}, Webhook: "http://127.0.0.1.example.com/", Secret: secret}, "want https"},
		{budget.Warning{At: []int{80}, Webhook: "https://user:pw@hooks.example.com/", Secret: secret}, "without user"},
		{budget.Warning{At: []int{80}, Webhook: "https://hooks.example.com/#x", Secret: secret}, "without user and fragment"},
		{budget.Warning{At: []int{80}, Webhook: "ftp://hooks.example.com/", Secret: secret}, "want a URL such as"},
		{budget.Warning{At: []int{80}, Webhook: "https://:80/", Secret: secret}, "want a URL such as"},
		{budget.Warning{At: []int{80}, Webhook: "/budget", Secret: secret}, "want a URL such as"},
	} {
		_, err := budget.NewMeter(budget.MeterConfig{Unit: budget.Tokens, Warn: &test.w})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%+v: %v", test.w, err)
		case test.want != "" && (!errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%+v: %v, want %q", test.w, err, test.want)
		case err != nil && strings.Contains(err.Error(), secret):
			t.Errorf("%+v: the error %q has the secret", test.w, err)
		}
	}
}

func TestReached(t *testing.T) {
	for _, test := range []struct {
		percentage int
		n, limit   int64
		want       bool
	}{{80, 79, 100, false}, {80, 80, 100, true}, {80, 2, 3, false}, {66, 2, 3, true}, {100, 3, 3, true}, {1, 0, 0, false}, {100, 1 << 53, 1 << 53, true}} {
		if got := new(budget.Warning).Reached(test.percentage, test.n, test.limit); got != test.want {
			t.Errorf("Reached(%d, %d, %d) = %t, want %t", test.percentage, test.n, test.limit, got, test.want)
		}
	}
}
