// Command paid calls an interface that charges for every call, from as many replicas as
// you like, and never more often than the budget allows.
//
//	go run ./paid                                    # a budget in memory, 4 replicas
//	go run ./paid -redis redis://127.0.0.1:6379      # a budget for all processes
//
// The interface is one of its own, unless -api names another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/transport"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "paid:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("paid", flag.ContinueOnError)
	var (
		redis    = flags.String("redis", "", "`URL` of a Redis that keeps the budget for all processes; in memory if empty")
		limit    = flags.String("limits", "200/s, 40/24h fixed_window", "the budget: limits, separated by commas")
		replicas = flags.Int("replicas", 4, "how many replicas call")
		calls    = flags.Int("calls", 50, "how many calls each of them wants to make; 0 goes on until it is interrupted")
		api      = flags.String("api", "", "`URL` of the interface; one of this program's own if empty")
		price    = flags.Int("price", 5, "cents that a call costs")
	)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	limits, err := parse(*limit)
	if err != nil {
		return err
	}
	store, done, err := open(*redis)
	if err != nil {
		return err
	}
	defer done()
	var seen func() int64
	if *api == "" {
		paid, err := serve()
		if err != nil {
			return err
		}
		defer paid.stop()
		*api, seen = paid.url, paid.calls.Load
	}

	var all tally
	var wg sync.WaitGroup
	for range *replicas {
		client, err := newClient(store, limits)
		if err != nil {
			return err
		}
		defer client.CloseIdleConnections()
		wg.Go(func() { replica(ctx, client, *api, *calls, &all) })
	}
	wg.Wait()

	fmt.Fprintln(out, &all)
	if seen != nil {
		n := seen()
		fmt.Fprintf(out, "the API saw %d calls: the bill is %d.%02d\n", n, n*int64(*price)/100, n*int64(*price)%100)
	}
	return nil
}

// newClient returns the client of a replica. All replicas use the same key, so they share one
// budget.
func newClient(store weir.Store, limits []weir.Limit) (*http.Client, error) {
	t, err := transport.New(transport.Config{
		Base:    http.DefaultTransport.(*http.Transport).Clone(),
		Store:   store,
		Limits:  limits,
		Prefix:  "paid",
		Key:     func(*http.Request) string { return "quotes" },
		MaxWait: 2 * time.Second,

		OnStoreError: policy.Closed, // without a decision, a call could exceed the budget
	})
	return &http.Client{Transport: t}, err
}

// A tally counts the results of calls.
type tally struct{ sent, denied, undecided, failed atomic.Int64 }

func (t *tally) String() string {
	return fmt.Sprintf("sent %d, denied %d, undecided %d, failed %d",
		t.sent.Load(), t.denied.Load(), t.undecided.Load(), t.failed.Load())
}

// replica makes n calls, or calls until ctx ends if n is 0.
func replica(ctx context.Context, client *http.Client, api string, n int, t *tally) {
	for i := 0; (i < n || n == 0) && ctx.Err() == nil; i++ {
		err := quote(ctx, client, api)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			t.sent.Add(1)
			continue
		case errors.Is(err, transport.ErrDenied):
			t.denied.Add(1)
		case errors.Is(err, transport.ErrUndecided):
			t.undecided.Add(1)
		default:
			t.failed.Add(1)
		}
		if n == 0 { // a call without a bound: retry a little later
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

func quote(ctx context.Context, client *http.Client, api string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, api, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func parse(text string) ([]weir.Limit, error) {
	var limits []weir.Limit
	for part := range strings.SplitSeq(text, ",") {
		l, err := weir.ParseLimit(part)
		if err != nil {
			return nil, fmt.Errorf("-limits: %w", err)
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// open is the store of the budget, and what closes it.
func open(url string) (weir.Store, func(), error) {
	if url == "" {
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			return nil, nil, err
		}
		return store, func() { store.Close() }, nil
	}
	conn, err := rueidis.Open(url)
	if err != nil {
		return nil, nil, err
	}
	// No user waits for a response of this program: a late decision is better than none.
	store, err := redisstore.New(conn, redisstore.Config{Timeout: 10 * time.Second})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return store, func() { store.Close(); conn.Close() }, nil
}
