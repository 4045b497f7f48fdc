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
	"github.com/floodweir/weir/weirfile"
)

// defaultAdmin is the default admin interface of `weir explain`.
const defaultAdmin = "http://127.0.0.1:9090"

// explainOptions are the flags of `weir explain`.
type explainOptions struct {
	q                explain.Question
	headers, bucket  []string
	admin, tokenFile string
	draft            string
	output           string
}

func explainCommand(w *app) *cobra.Command {
	var e explainOptions
	c := &cobra.Command{
		Use:   "explain [FILE] (--url URL | --domain DOMAIN --bucket KEY=VALUE)",
		Short: "Explain the decision that a request would get, without consuming tokens",
		Long: "Print the policies that a request matches and why others do not, the buckets it uses, the limit that\n" +
			"decides, and when it would be admitted. No tokens are consumed.\n\n" +
			"It calls the admin interface of a running program (--admin, else WEIR_ADMIN, else " + defaultAdmin + ").\n" +
			"With FILE (- is standard input) it uses the policies of FILE and full buckets instead.\n\n" +
			"With --domain and --bucket it explains a bucket of Envoy's rate limit quota service of a running program.\n\n" +
			"With --draft it also prints the decision if the policies of that file were in force next.\n\n" +
			"Exit codes: 0 would be admitted, 1 would be denied, 2 no decision or wrong usage; with --draft those of the draft.",
		Example: "  weir explain --url /api/users --ip 203.0.113.7\n" +
			"  weir explain --url /login --draft weir.yaml\n" +
			"  weir explain weir.yaml --url https://shop.example/login --method POST -H 'X-Plan: free'",
		Args: usage(cobra.MaximumNArgs(1)),
	}
	f := c.Flags()
	f.StringVar(&e.q.URL, "url", "", "the `URL` of the request, or its path and query")
	f.StringVarP(&e.q.Method, "method", "X", "", "the `METHOD` of the request; default GET")
	f.StringVar(&e.q.Host, "host", "", "the `HOST` of the request, if --url is a path")
	f.StringArrayVarP(&e.headers, "header", "H", nil, "a header field of the request, `NAME:VALUE`; may be repeated")
	f.StringVar(&e.q.ClientIP, "ip", "", "the `ADDRESS` of the client")
	f.StringVar(&e.q.Domain, "domain", "", "the `DOMAIN` of a bucket of Envoy's quota service")
	f.StringArrayVar(&e.bucket, "bucket", nil, "a pair of the bucket's id, `KEY=VALUE`; may be repeated")
	adminFlags(c, &e.admin, &e.tokenFile)
	f.StringVar(&e.draft, "draft", "", "a policy `FILE` to compare with; - is standard input")
	f.StringVarP(&e.output, "output", "o", "text", "`FORMAT` of the output: text or json")
	asJSON := false
	jsonFlag(c, &asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		if asJSON {
			e.output = "json"
		}
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
	case e.q.URL == "" && e.q.Domain == "" && len(e.bucket) == 0:
		return nil, errors.New("explain: --url: want a URL or a path such as /api/users, got none")
	case e.q.URL != "" && e.q.Domain != "":
		return nil, errors.New("explain: --url and --domain: want one of them, got both")
	case (e.q.Domain == "") != (len(e.bucket) == 0):
		return nil, errors.New("explain: --domain and --bucket: want both, got one")
	case len(args) == 1 && e.q.Domain != "":
		return nil, errors.New("explain: FILE and --domain: want one of them, got both")
	case e.output != "text" && e.output != "json":
		return nil, fmt.Errorf("explain: --output %q: want text or json", e.output)
	case len(args) == 1 && (e.admin != "" || e.tokenFile != ""):
		return nil, errors.New("explain: FILE and --admin or --token-file: want one of them, got both")
	}
	var err error
	if e.q.Headers, err = explain.ParseHeaders(e.headers); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if len(e.bucket) > 0 {
		if e.q.Bucket, err = explain.ParsePairs(e.bucket); err != nil {
			return nil, fmt.Errorf("explain: %w", err)
		}
	}
	if e.q.Domain == "" {
		if err := e.q.Check(); err != nil { // before a program is asked that may not run
			return nil, fmt.Errorf("explain: %w", err)
		}
	}
	var draft *weirfile.File
	if e.draft != "" {
		if draft, _, err = w.readPolicies(e.draft, false); err != nil {
			return nil, &exit{code: exitError, err: errors.Unwrap(err)} // the errors are already printed
		}
		e.q.Draft = draft.Text
	}
	ctx, done := w.wait(ctx, "the decision")
	defer done()
	if len(args) == 0 {
		return w.askAdmin(ctx, e)
	}
	file, _, err := w.readPolicies(args[0], false)
	if err != nil {
		return nil, &exit{code: exitError, err: errors.Unwrap(err)}
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	answer, err := explain.Explain(ctx, store, explain.DivisionOf(file.Policies), file.Policies, e.q)
	if err == nil && draft != nil {
		answer.Draft, err = explain.Explain(ctx, store, explain.DivisionOf(draft.Policies), draft.Policies, e.q)
	}
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return answer, nil
}

// askAdmin calls the admin interface of a running program.
func (w *app) askAdmin(ctx context.Context, e *explainOptions) (*explain.Answer, error) {
	q, err := w.adminRequest("explain", e.admin, e.tokenFile)
	if err != nil {
		return nil, err
	}
	q.path, q.body, q.unreachable = []string{"v1", "explain"}, e.q, "Set another URL with --admin, or name a FILE"
	data, err := q.send(ctx)
	if err != nil {
		return nil, err
	}
	var a explain.Answer
	if err := json.Unmarshal(data, &a); err != nil || a.Verdict == "" {
		return nil, fmt.Errorf("explain: %s: the response is not from Weir", q.to.Redacted())
	}
	return &a, nil
}

// adminFlags adds the flags of the admin interface to a command.
func adminFlags(c *cobra.Command, admin, tokenFile *string) {
	c.Flags().StringVar(admin, "admin", "", "`URL` of the admin interface; else WEIR_ADMIN, else "+defaultAdmin)
	c.Flags().StringVar(tokenFile, "token-file", "", "`FILE` with the token of the admin interface; else WEIR_ADMIN_TOKEN_FILE, else the token in WEIR_ADMIN_TOKEN")
}

// adminRequest returns a request to the admin interface of the flags.
func (w *app) adminRequest(command, admin, tokenFile string) (request, error) {
	to, err := adminURL(command, "--admin", admin, w.getenv)
	if err != nil {
		return request{}, err
	}
	token, err := readToken(command, tokenFile, "WEIR_ADMIN_TOKEN", w.getenv)
	return request{command: command, to: to, token: token, maxBytes: 16 << 20, unreachable: "Set another URL with --admin", notWeir: "admin interface of Weir"}, err
}

// adminURL returns the admin interface of value, which where names, else of WEIR_ADMIN, else
// defaultAdmin.
func adminURL(command, where, value string, env func(string) string) (*url.URL, error) {
	if value == "" {
		where, value = "WEIR_ADMIN", env("WEIR_ADMIN")
	}
	if value == "" {
		value = defaultAdmin
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: %s %q: want http://HOST:PORT or https://HOST:PORT", command, where, value)
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
	case a.Draft != nil:
		a = a.Draft
	}
	switch {
	case a.Verdict == explain.Denied && (a.Denial == nil || a.Denial.Wait == 0):
		return &exit{code: exitDenied}
	case a.Verdict == explain.Undecided, a.Verdict == explain.Overloaded:
		return &exit{code: exitError}
	}
	return nil
}
