package pages

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Captcha is the widget of a captcha on the page of a sale. Its zero value is none.
type Captcha struct {
	// Script is the address of the widget's script: a URL, or a path of the same host.
	Script string

	// SiteKey is the public key of the widget, if it has one.
	SiteKey string

	// Origins are further ones from which the widget loads scripts, styles, frames, pictures
	// and data, such as https://*.hcaptcha.com.
	Origins []string
}

// Check returns the errors of c.
func (c Captcha) Check() error {
	if c.Script == "" {
		if len(c.Origins) > 0 {
			return fmt.Errorf("captcha origins %q: want a script too", c.Origins)
		}
		return nil
	}
	var faults []error
	if _, ok := c.origin(); !ok {
		faults = append(faults, fmt.Errorf("captcha script %q: want https://HOST/PATH or /PATH", c.Script))
	}
	for _, text := range c.Origins {
		if origin, ok := originOf(text); !ok || origin != text {
			faults = append(faults, fmt.Errorf("captcha origin %q: want https://HOST", text))
		}
	}
	return errors.Join(faults...)
}

// origin returns the origin of the script; empty if it is that of the page.
func (c Captcha) origin() (origin string, ok bool) {
	if strings.HasPrefix(c.Script, "/") && !strings.HasPrefix(c.Script, "//") {
		return "", true
	}
	return originOf(c.Script)
}

// originOf returns the origin of a URL, if it can stand in a Content-Security-Policy.
func originOf(text string) (origin string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(u.Host, ";,'\"") {
		return "", false
	}
	return u.Scheme + "://" + u.Host, true
}

// policy returns the Content-Security-Policy of a page with the widget: Policy and the origins of
// the widget.
func (c Captcha) policy() string {
	origin, _ := c.origin()
	more := strings.Join(c.Origins, " ")
	all := strings.TrimSpace(origin + " " + more)
	p := Policy
	for _, d := range []struct{ directive, origins string }{{"script-src", all}, {"style-src", more}, {"img-src", more}, {"connect-src", more}} {
		if d.origins != "" {
			p = strings.Replace(p, d.directive+" 'self'", d.directive+" 'self' "+d.origins, 1)
		}
	}
	if all != "" {
		p += "; frame-src " + all
	}
	return p
}
