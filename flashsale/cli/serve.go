package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/spf13/cobra"
)

func (w *environment) serve() *cobra.Command {
	c := run.Config{
		Stripe: run.StripeConfig{Key: w.getenv("FLASHSALE_STRIPE_KEY")}, MetricsToken: w.getenv("FLASHSALE_METRICS_TOKEN"),
		Captcha: run.Captcha{Secret: w.getenv(run.TurnstileSecret)},
	}
	cmd := &cobra.Command{
		Use:   "serve (--data DIRECTORY | --database URL --redis URL --secret FILE) --payments URL",
		Short: "Serve the shop and the office",
		Long: "Serve the shop, for buyers, and the office, for merchants.\n\n" +
			"With --data one process stores everything in a file. With --database and --redis any\n" +
			"number of processes serve the same sales; they share a secret.\n\n" +
			"--payments names who takes the money: the URL of a payment provider, MERCHANT=URL for the\n" +
			"orders of one merchant, or none, with which only sales of price 0 can be paid.",
		Args: command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(command.CheckStores(cmd, &c), command.Positive(cmd, "workers", "drain")); err != nil {
				return err
			}
			if len(c.Payments) == 0 {
				return command.Usagef("--payments: want the URL of a payment provider, or none to sell only what is free")
			}
			c.Log = w.logger()
			s, err := run.Start(cmd.Context(), c)
			if err != nil {
				return err
			}
			fmt.Fprintf(w.stdout, "shop:   %s\noffice: %s\n", s.ShopURL, s.OfficeURL)
			return wait(cmd.Context(), s)
		},
	}
	command.StoreFlags(cmd, w.getenv, &c)
	f := cmd.Flags()
	f.StringVar(&c.Secret, "secret", "", "the `FILE` with the secret, at least 32 bytes (with --data: DIRECTORY/secret, created if missing)")
	f.StringVar(&c.OldSecret, "old-secret", "", "the `FILE` with the previous secret, whose signatures are still accepted")
	f.StringVar(&c.Shop, "shop", run.DefaultShop, "the address for buyers, `HOST:PORT`")
	f.StringVar(&c.Office, "office", run.DefaultOffice, "the address for merchants, `HOST:PORT`; other than loopback requires FLASHSALE_METRICS_TOKEN")
	f.StringArrayVar(&c.Payments, "payments", nil, "the payment provider, `URL` or MERCHANT=URL (repeatable), stripe (its secret key in FLASHSALE_STRIPE_KEY), or none")
	f.StringVar(&c.Stripe.Page, "stripe-page", "", "with --payments stripe: the `URL` of your page with the payment element")
	f.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil, "`ADDRESSES` or prefixes of proxies in front, whose X-Forwarded-For is trusted")
	f.StringSliceVar(&c.WebhookNetworks, "webhook-networks", nil, "`ADDRESSES` or prefixes that webhooks may be sent to although they are not public")
	f.StringVar(&c.Layers, "layers", "", "the policy `FILE` of the limits per address and user, reloaded when it changes (built in by default)")
	f.StringVar(&c.Catalogue, "catalogue", "", "the `URL` of the shop's catalogue, from which products are copied into sales (none: written in the office)")
	f.StringSliceVar(&c.CatalogueNetworks, "catalogue-networks", nil, "`ADDRESSES` or prefixes that the catalogue may have although they are not public")
	i := &c.Identity
	f.StringVar(&i.JWTKey, "jwt-key", "", "the `FILE` with the key of tokens that identify buyers: a public key in PEM, or for HS256 a secret (without: guests)")
	f.StringVar(&i.JWTAlgorithm, "jwt-algorithm", "", "the only `ALGORITHM` of these tokens: EdDSA, ES256 or HS256")
	f.StringVar(&i.JWTIssuer, "jwt-issuer", "", "the claim iss of these tokens, an `ISSUER`")
	f.StringVar(&i.JWTCookie, "jwt-cookie", "", "the `NAME` of a cookie with the token, besides Authorization: Bearer")
	f.StringVar(&i.OIDCIssuer, "oidc-issuer", "", "the `URL` of an OpenID provider where buyers sign in")
	f.StringVar(&i.OIDCClient, "oidc-client", "", "the `ID` of the client at the provider")
	f.StringVar(&i.OIDCSecret, "oidc-secret", "", "the `FILE` with the secret of the client (none for a public client)")
	f.StringVar(&i.OIDCRedirect, "oidc-redirect", "", "the `URL` of this shop with /login/callback, as registered at the provider")
	f.StringVar(&i.SignIn, "sign-in", "", "the `URL` where buyers sign in (/login with an OpenID provider)")
	f.StringVar(&c.Captcha.SiteKey, "turnstile-site-key", "", "the site `KEY` of a Cloudflare Turnstile widget, a captcha for each new ticket (its secret in "+run.TurnstileSecret+")")
	f.BoolVar(&c.Front, "front", false, "disable these limits, because a proxy in front applies them")
	f.IntVar(&c.Workers, "workers", 2, "the number of order writers")
	f.StringVar(&c.Name, "name", "", "the `NAME` of this process among those of the sale: 1 to 56 letters, digits, . _ - (random by default)")
	f.DurationVar(&c.Drain, "drain", run.DefaultDrain, "how long a stop waits for requests in progress")
	return cmd
}

// wait waits until ctx is done or s fails, and stops s.
func wait(ctx context.Context, s *run.System) error {
	select {
	case <-ctx.Done():
		return s.Stop()
	case err := <-s.Failed():
		s.Stop()
		return err
	}
}
