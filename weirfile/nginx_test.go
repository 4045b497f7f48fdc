package weirfile_test

import (
	"fmt"
	"testing"
)

// TestNginxForm checks limit_req in nginx's terms.
func TestNginxForm(t *testing.T) {
	for yaml, want := range map[string]string{
		`nginx: { rate: 10r/s }`:                                               `10/s leaky_bucket burst 0 nginx, enforce, 503`,
		`nginx: { rate: 6r/m }`:                                                `6/m leaky_bucket burst 0 nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 20 }`:                                    `10/s leaky_bucket burst 20 queue nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 20, nodelay: true }`:                     `10/s leaky_bucket burst 20 nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 20, nodelay: false }`:                    `10/s leaky_bucket burst 20 queue nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 20, delay: 8 }`:                          `10/s leaky_bucket burst 20 queue delay 8 nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 20, delay: 0 }`:                          `10/s leaky_bucket burst 20 queue nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 20, delay: 20 }`:                         `10/s leaky_bucket burst 20 nginx, enforce, 503`,
		`nginx: { rate: 10r/s, burst: 0, nodelay: true }`:                      `10/s leaky_bucket burst 0 nginx, enforce, 503`,
		`nginx: { rate: 10r/m, burst: 5, exact: true }`:                        `10/m leaky_bucket burst 5 queue, enforce, 503`,
		`nginx: { rate: 10r/m, burst: 5, exact: false }`:                       `10/m leaky_bucket burst 5 queue nginx, enforce, 503`,
		`nginx: { rate: 10r/s, dry_run: true }`:                                `10/s leaky_bucket burst 0 nginx, shadow, 503`,
		`nginx: { rate: 10r/s, dry_run: false }`:                               `10/s leaky_bucket burst 0 nginx, enforce, 503`,
		`nginx: { rate: 10r/s, status: 429 }`:                                  `10/s leaky_bucket burst 0 nginx, enforce, 429`,
		`{ nginx: { rate: 10r/s, zone: one }, on_denied: { status: 418 } }`:    `10/s leaky_bucket burst 0 nginx shared, enforce, 418, one`,
		`{ nginx: { rate: 10r/s }, on_denied: { redirect: /busy }, mode: off}`: `10/s leaky_bucket burst 0 nginx, off, 303`,
	} {
		text := "policies:\n  - name: a\n    key: client.ip\n    " + yaml
		if yaml[0] == '{' {
			text = "policies:\n  - { name: a, key: client.ip, " + yaml[1:]
		}
		c := parse(t, text).Policies.Policy("a").Config()
		got := fmt.Sprintf("%v, %s, %d", c.Limits[0], c.Mode, c.OnDenied.Status)
		if c.Zone != "" {
			got += ", " + c.Zone
		}
		if got != want || len(c.Limits) != 1 {
			t.Errorf("%s = %s, want %s", yaml, got, want)
		}
	}
}
