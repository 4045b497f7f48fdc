// Command errorchain calls a limited function over and over: what a caller gets when it
// comes too often, and what when there is no Redis to ask.
//
//	go run ./examples/errorchain -redis 127.0.0.1:6379
//
// Its limit is in weir.yaml and its state in Redis. Stop Redis and start it again, or
// change the file, while the program runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

//go:generate go run github.com/floodweir/weir/cmd/weir generate

// getID is limited by the rule getId in weir.yaml.
//
//weir:limit name=getId key=user degrade=tooOften onerror=fromCache,reserved
func getID(ctx context.Context, user string) (string, error) {
	return "id of " + user, nil
}

// tooOften handles a denied call.
func tooOften(_ context.Context, user string, denied error) (string, error) {
	var d *guard.Denied
	if !errors.As(denied, &d) {
		return "", denied
	}
	return fmt.Sprintf("not now, %s: %d left of %v", user, d.Decision.Remaining, d.Decision.Limit), nil
}

// fromCache handles store errors first. It returns cached IDs, and passes calls for other
// users to the next handler.
func fromCache(_ context.Context, user string, err error) (string, error) {
	if id, ok := map[string]string{"alice": "remembered id of alice"}[user]; ok {
		return id, nil
	}
	return "", guard.Next
}

// reserved handles the remaining store errors.
func reserved(_ context.Context, user string, err error) (string, error) {
	return "reserved id for " + user, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "errorchain:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("errorchain", flag.ContinueOnError)
	addr := flags.String("redis", "127.0.0.1:6379", "host:port of Redis")
	file := flags.String("config", "examples/errorchain/weir.yaml", "policy file")
	every := flags.Duration("every", 100*time.Millisecond, "time between two calls")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *every <= 0 {
		return fmt.Errorf("-every %v: want more than 0", *every)
	}
	policies, err := weirfile.Load(*file)
	if err != nil {
		return err
	}
	conn, err := rueidis.Open("redis://" + *addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := redisstore.New(conn, redisstore.Config{Prefix: "errorchain"})
	if err != nil {
		return err
	}
	defer store.Close()
	adopt := func(f *weirfile.File) error {
		return guard.Default().Configure(guard.Config{Store: store, Functions: f.Functions})
	}
	if err := adopt(policies); err != nil {
		return err
	}
	follower := weirfile.Follower{Path: *file, Adopt: adopt, Trouble: func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "errorchain: going on with the former file:", err)
		}
	}}
	go follower.Run(ctx)
	return call(ctx, *every, stdout)
}

// call calls getID for two users by turns until ctx ends, and prints what each gets if it
// is not what that user got before.
func call(ctx context.Context, every time.Duration, stdout io.Writer) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := map[string]string{}
	for {
		for _, user := range []string{"alice", "bob"} {
			answer, err := limitedGetID(ctx, user)
			if err != nil {
				answer = err.Error()
			}
			if ctx.Err() == nil && answer != last[user] {
				last[user] = answer
				fmt.Fprintf(stdout, "%s: %s\n", user, answer)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
