package ratelimit

import (
	"fmt"
	"strings"
	"time"
)

// String returns a line for each limit, in the format of envoyproxy/ratelimit:
//
//	checkout.tenant_acme: unit=MINUTE requests_per_unit=600, shadow_mode: false, quota_mode: false
//
// A window that is not a unit is a duration.
func (c *Config) String() string {
	var b strings.Builder
	for _, d := range c.Domains() {
		dump(&b, d.Name, d.Descriptors)
	}
	return b.String()
}

func dump(b *strings.Builder, domain string, ds []*Descriptor) {
	for _, d := range ds {
		switch l := d.Limit; {
		case l == nil:
		case l.Unlimited:
			fmt.Fprintf(b, "%s.%s: unlimited\n", domain, d.label)
		default:
			fmt.Fprintf(b, "%s.%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n",
				domain, d.label, unitOf(l.Window), l.RequestsPerUnit, l.Shadow, l.Quota)
		}
		dump(b, domain, d.Descriptors)
	}
}

func unitOf(window time.Duration) string {
	for name, length := range units {
		if length == window {
			return strings.ToUpper(name)
		}
	}
	return window.String()
}
