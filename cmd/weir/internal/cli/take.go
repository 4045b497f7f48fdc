package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/cmd/weir/internal/progress"
	"github.com/floodweir/weir/cmd/weir/internal/run"
)

// askTimeout bounds the time of a call to a server or a store.
const askTimeout = 5 * time.Second

// wait returns a context that ends after askTimeout. Until done is called, a terminal shows what the command
// waits for.
func (w *app) wait(ctx context.Context, what string) (_ context.Context, done func()) {
	p := progress.Start(w.stderr, progress.Doing("waiting for "+what))
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	return ctx, func() {
		cancel()
		p.Done()
	}
}

// takeOptions are the flags of `weir take`.
type takeOptions struct {
	key           string
	limits        []string
	n             int64
	peek          bool
	store, server string
	tokenFile     string
	output        string
}

func takeCommand(w *app) *cobra.Command {
	var t takeOptions
	c := &cobra.Command{
		Use:   "take KEY --limit LIMIT",
		Short: "Request tokens from a shell",
		Long: "Take N tokens of KEY under a limit, or under several limits all or nothing, and print the decision.\n\n" +
			"It calls the server (--server, else WEIR_SERVER, else " + config.DefaultServer + "), or with --store a Redis directly.\n" +
			"All callers with the same key and limit share one bucket.\n\n" +
			"Exit codes: 0 admitted, 1 denied, 2 no decision or wrong usage.",
		Example: "  weir take user:42 --limit '10/s burst 20'\n" +
			"  weir take backup --limit 1/24h --store redis://127.0.0.1:6379 && run-the-backup\n" +
			"  weir take user:42 --limit 10/s --limit 5000/24h -n 3 --output json",
		Args: usage(cobra.ExactArgs(1)),
	}
	f := c.Flags()
	f.StringArrayVar(&t.limits, "limit", nil, "the `LIMIT`, such as '10/s burst 20'; may be repeated")
	f.Int64VarP(&t.n, "n", "n", 1, "take `N` tokens; 0 takes none")
	f.BoolVar(&t.peek, "peek", false, "print the decision without taking tokens")
	f.StringVar(&t.store, "store", "", "use the store at `URL` directly, such as redis://127.0.0.1:6379")
	f.StringVar(&t.server, "server", "", "call the server at `URL`")
	f.StringVar(&t.tokenFile, "token-file", "", "`FILE` with the token of the HTTP API; else WEIR_HTTP_TOKEN_FILE, else the token in WEIR_HTTP_TOKEN")
	f.StringVarP(&t.output, "output", "o", "text", "`FORMAT` of the output: text or json")
	asJSON := false
	jsonFlag(c, &asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		if t.key = args[0]; asJSON {
			t.output = "json"
		}
		answer, err := w.ask(c.Context(), t)
		if err != nil {
			return &exit{exitError, err}
		}
		return w.printDecision(t, answer)
	}
	return c
}

// ask returns the decision in JSON, from the server or from the store.
func (w *app) ask(ctx context.Context, t takeOptions) ([]byte, error) {
	switch {
	case len(t.limits) == 0:
		return nil, errors.New(`take: --limit: want a limit such as "10/s burst 20", got none`)
	case t.output != "text" && t.output != "json":
		return nil, fmt.Errorf("take: --output %q: want text or json", t.output)
	case t.store != "" && t.server != "":
		return nil, errors.New("take: --store and --server: want one of them, got both")
	case t.store != "" && t.tokenFile != "":
		return nil, errors.New("take: --store and --token-file: want one of them, got both")
	}
	limits, err := parseLimits(t.limits)
	if err != nil {
		return nil, err
	}
	ctx, done := w.wait(ctx, "the decision")
	defer done()
	if t.store != "" {
		return askStore(ctx, t, limits)
	}
	server, err := config.Server(t.server, w.getenv)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	token, err := readToken("take", t.tokenFile, "WEIR_HTTP_TOKEN", w.getenv)
	if err != nil {
		return nil, err
	}
	return askServer(ctx, server, token, t)
}

func parseLimits(texts []string) ([]weir.Limit, error) {
	limits := make([]weir.Limit, len(texts))
	for i, text := range texts {
		var err error
		if limits[i], err = weir.ParseLimit(text); err != nil {
			return nil, fmt.Errorf("take: --limit %q: %w", text, err)
		}
	}
	return limits, nil
}

func askStore(ctx context.Context, t takeOptions, limits []weir.Limit) ([]byte, error) {
	if err := config.CheckStore(t.store); err != nil {
		return nil, fmt.Errorf("take: --store %q: %w", config.Redacted(t.store), err)
	}
	var rs []weir.Request
	for _, limit := range limits {
		r := weir.Request{Key: t.key, Limit: limit, N: t.n}
		if t.peek {
			r.Verb = weir.Peek
		}
		rs = append(rs, r)
	}
	store, stop, err := run.OpenStore(t.store)
	if err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	defer stop()
	ds := make([]weir.Decision, len(rs))
	if _, err := store.DoAll(ctx, rs, ds); err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	return httpapi.Answer("", ds), nil
}

func askServer(ctx context.Context, server *url.URL, token string, t takeOptions) ([]byte, error) {
	verb := "take"
	if t.peek {
		verb = "peek"
	}
	return request{
		command: "take", to: server, path: []string{"v1", verb}, token: token, maxBytes: 1 << 20,
		body:        map[string]any{"key": t.key, "limits": t.limits, "n": t.n},
		unreachable: "Set another URL with --server, or a Redis with --store", notWeir: "HTTP API of Weir",
	}.send(ctx)
}

// printDecision prints the decision and returns its exit code.
func (w *app) printDecision(t takeOptions, data []byte) error {
	var a struct {
		OK         *bool       `json:"ok"`
		Limit      string      `json:"limit"`
		Capacity   int64       `json:"capacity"`
		Remaining  int64       `json:"remaining"`
		Debt       int64       `json:"debt"`
		RetryAfter json.Number `json:"retry_after"`
		Never      bool        `json:"never"`
		Delay      json.Number `json:"delay"`
	}
	if err := json.Unmarshal(data, &a); err != nil || a.OK == nil {
		return &exit{exitError, errors.New("take: the response is not from Weir")}
	}
	var text string
	switch {
	case t.output == "json":
		text = strings.TrimSuffix(string(data), "\n")
	case *a.OK:
		text = fmt.Sprintf("admitted: %d of %d left (%s)", a.Remaining, a.Capacity, a.Limit)
		if a.Delay != "" {
			text += fmt.Sprintf("; wait %s s", a.Delay)
		}
	case a.Never:
		text = fmt.Sprintf("denied: %d tokens are never admitted, want at most %d (%s)", t.n, a.Capacity, a.Limit)
	default:
		text = fmt.Sprintf("denied: retry after %s s (%s)", a.RetryAfter, a.Limit)
	}
	if a.Debt > 0 && t.output != "json" {
		text += fmt.Sprintf("; debt %d", a.Debt)
	}
	if _, err := fmt.Fprintln(w.stdout, text); err != nil {
		return &exit{exitError, err}
	}
	if !*a.OK {
		return &exit{code: exitDenied}
	}
	return nil
}
