package run

import (
	"cmp"
	"fmt"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/pages"
)

// Captcha configures the captcha of each new ticket: Turnstile by SiteKey and Secret, or another
// one by Script and Config.Challenge. Its zero value shows none.
type Captcha struct {
	// SiteKey is the public key of the widget, and Secret the secret of a Turnstile widget.
	SiteKey, Secret string

	// Script is the URL of the script of the widget, or a path of the shop's host; Turnstile's if
	// empty. One that defines flashsaleCaptcha is another widget: see flashsale/API.md.
	Script string

	// Origins are those from which the script of another widget loads more, such as
	// https://*.hcaptcha.com. The Content-Security-Policy allows them and the script's own.
	Origins []string

	// Siteverify is the URL that verifies tokens; Turnstile's if empty.
	Siteverify string
}

// TurnstileSecret is the environment variable from which serve reads Captcha.Secret.
const TurnstileSecret = "FLASHSALE_TURNSTILE_SECRET"

// check returns the errors of the settings. Challenge is Config.Challenge.
func (c *Captcha) check(challenge captcha.Challenge) (faults []error) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case c.Secret != "" && challenge != nil:
		bad("%s: want either it or Challenge", TurnstileSecret) // it is never printed
	case c.Secret != "" && c.SiteKey == "":
		bad(`turnstile-site-key "": want the key of the widget whose secret %s is`, TurnstileSecret)
	case c.Secret == "" && challenge == nil && c.SiteKey != "":
		bad(`%s "": want the secret of the widget, as turnstile-site-key %q is given`, TurnstileSecret, c.SiteKey)
	case c.Script != "" && c.SiteKey == "" && challenge == nil:
		bad("captcha script %q: want a Challenge, which verifies its tokens", c.Script)
	}
	if c.Siteverify != "" && c.Secret == "" {
		bad("siteverify %q: want %s too", c.Siteverify, TurnstileSecret)
	}
	if err := c.page().Check(); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// page returns the page's half.
func (c *Captcha) page() pages.Captcha {
	script := c.Script
	if c.SiteKey != "" {
		script = cmp.Or(script, captcha.TurnstileScript)
	}
	return pages.Captcha{Script: script, SiteKey: c.SiteKey, Origins: c.Origins}
}

// challenge returns what verifies tokens: other, or Turnstile with a secret.
func (c *Captcha) challenge(other captcha.Challenge) (captcha.Challenge, error) {
	if c.Secret == "" {
		return other, nil
	}
	t, err := captcha.NewTurnstile(captcha.TurnstileConfig{Secret: c.Secret, URL: c.Siteverify})
	if err != nil {
		return nil, err // not a typed nil
	}
	return t, nil
}
