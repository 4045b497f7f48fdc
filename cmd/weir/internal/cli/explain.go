package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/memstore"
)

// defaultAdmin is the default admin interface of `weir explain`.
const defaultAdmin = "http://127.0.0.1:9090"

// explainOptions are the flags of `weir explain`.
type explainOptions struct {
	q                explain.Question
	headers          []string
	admin, tokenFile string
	output           string
}

func (w *app) explain() *cobra.Command {
	var e explainOptions
	c := &cobra.Command{
		Use:   "explain [FILE] --url URL",
		Short: "Explain the decision that a request would get, without consuming tokens",
		Long: "Print the policies that a request matches and why others do not, the buckets it uses, the limit that\n" +
			"decides, and when it would be admitted. No tokens are consumed.\n\n" +
			"It calls the admin interface of a running program (--admin, else WEIR_ADMIN, else " + defaultAdmin + ").\n" +
			"With FILE (- is standard input) it uses the policies of FILE and full buckets instead.\n\n" +
			"Exit codes: 0 would be admitted, 1 would be denied, 2 no decision or wrong usage.",
		Example: "  weir explain --url /api/users --ip 203.0.113.7\n" +
			"  weir explain weir.yaml --url https://shop.example/login --method POST -H 'X-Plan: free'",
		Args: usage(cobra.MaximumNArgs(1)),
	}
	f := c.Flags()
	f.StringVar(&e.q.URL, "url", "", "the `URL` of the request, or its path and query")
	f.StringVarP(&e.q.Method, "method", "X", "", "the `METHOD` of the request; default GET")
	f.StringVar(&e.q.Host, "host", "", "the `HOST` of the request, if --url is a path")
	f.StringArrayVarP(&e.headers, "header", "H", nil, "a header field of the request, `NAME:VALUE`; may be repeated")
	f.StringVar(&e.q.ClientIP, "ip", "", "the `ADDRESS` of the client")
	f.StringVar(&e.admin, "admin", "", "`URL` of the admin interface")
	f.StringVar(&e.tokenFile, "token-file", "", "`FILE` with the token of the admin interface; else WEIR_ADMIN_TOKEN_FILE, else the token in WEIR_ADMIN_TOKEN")
	f.StringVarP(&e.output, "output", "o", "text", "`FORMAT` of the output: text or json")
	c.RunE = func(c *cobra.Command, args []string) error {
		answer, err := w.explanation(c.Context(), &e, args)
		var x *exit
		switch {
		case errors.As(err, &x):
			return err
		case err != nil:
			return &exit{exitError, err}
		}
		return w.printExplanation(e.output, answer)
	}
	return c
}

// explanation returns the answer of a running program, or with FILE that of this one.
func (w *app) explanation(ctx context.Context, e *explainOptions, args []string) (*explain.Answer, error) {
	switch {
	case e.q.URL == "":
		return nil, errors.New("explain: --url: want a URL or a path such as /api/users, got none")
	case e.output != "text" && e.output != "json":
		return nil, fmt.Errorf("explain: --output %q: want text or json", e.output)
	case len(args) == 1 && (e.admin != "" || e.tokenFile != ""):
		return nil, errors.New("explain: FILE and --admin or --token-file: want one of them, got both")
	}
	var err error
	if e.q.Headers, err = explain.ParseHeaders(e.headers); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if len(args) == 0 {
		return w.askAdmin(ctx, e)
	}
	file, _, err := w.readPolicies(args[0])
	if err != nil {
		return nil, &exit{code: exitError, err: errors.Unwrap(err)} // the errors are already printed
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	answer, err := explain.Explain(ctx, store, file.Policies, e.q)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return answer, nil
}

// askAdmin calls the admin interface of a running program.
func (w *app) askAdmin(ctx context.Context, e *explainOptions) (*explain.Answer, error) {
	admin, err := adminURL(e.admin, w.getenv)
	if err != nil {
		return nil, err
	}
	token, err := readToken("explain", e.tokenFile, "WEIR_ADMIN_TOKEN", w.getenv)
	if err != nil {
		return nil, err
	}
	data, err := request{
		command: "explain", to: admin, path: []string{"v1", "explain"}, token: token, maxBytes: 16 << 20, body: e.q,
		unreachable: "Set another URL with --admin, or name a FILE", notWeir: "admin interface of Weir",
	}.post(ctx)
	if err != nil {
		return nil, err
	}
	var a explain.Answer
	if err := json.Unmarshal(data, &a); err != nil || a.Verdict == "" {
		return nil, fmt.Errorf("explain: %s: the response is not from Weir", admin.Redacted())
	}
	return &a, nil
}

// adminURL returns the admin interface of the flag, else of WEIR_ADMIN, else
// defaultAdmin.
func adminURL(flag string, env func(string) string) (*url.URL, error) {
	where, value := "--admin", flag
	if value == "" {
		where, value = "WEIR_ADMIN", env("WEIR_ADMIN")
	}
	if value == "" {
		value = defaultAdmin
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("explain: %s %q: want http://HOST:PORT or https://HOST:PORT", where, value)
	}
	return u, nil
}

// printExplanation prints an explanation and returns its exit code.
func (w *app) printExplanation(output string, a *explain.Answer) error {
	var err error
	if output == "json" {
		err = json.NewEncoder(w.stdout).Encode(a)
	} else {
		err = a.WriteText(w.stdout)
	}
	switch {
	case err != nil:
		return &exit{exitError, err}
	case a.Verdict == explain.Denied && (a.Denial == nil || a.Denial.Wait == 0):
		return &exit{code: exitDenied}
	case a.Verdict == explain.Undecided, a.Verdict == explain.Overloaded:
		return &exit{code: exitError}
	}
	return nil
}
