// Command follow is a server whose limits are those that weir apply publishes, for its
// requests and its functions. It follows them in Redis, or over HTTP at a weir serve:
//
//	$ go run . -redis redis://127.0.0.1:6379
//	$ go run . -url http://127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("follow", flag.ContinueOnError)
	redis := flags.String("redis", "", "`URL` of the Redis with the published policies")
	server := flags.String("url", "", "`URL` of the HTTP interface of weir serve, instead of -redis")
	copyFile := flags.String("copy", "", "`FILE` with the last policies, for a start without the source")
	if err := flags.Parse(args); err != nil {
		return err
	}
	follower := &weirfile.Follower{Copy: *copyFile}
	reports := &instances.Publisher{Service: "shop", Registry: guard.Default()}
	store, err := open(*redis, *server, follower, reports)
	if err != nil {
		return err
	}
	reports.Counters = new(instances.Counters)
	h, err := limited(ctx, store, follower, reports.Counters)
	if err != nil {
		return err
	}
	reports.Policies, reports.Adjusts = follower.Status, follower.Adjusts
	reports.OnError = func(err error) { log.Print("reports to weir serve: ", err) } // nil: they are well again
	go func() { _ = reports.Run(ctx) }()                                            // its error is that of ctx
	return serve(ctx, h, out)
}

// open returns a store, and sets the source of the policies and the destination of the reports.
func open(redis, server string, follower *weirfile.Follower, reports *instances.Publisher) (weir.Store, error) {
	if server != "" {
		follower.URL, reports.URL = server+"/v1/published", server+"/v1/programs"
		return memstore.New(memstore.Config{})
	}
	conn, err := goredis.Open(redis) // connects at the first command
	if err != nil {
		return nil, err
	}
	follower.Redis, reports.Conn = conn, conn
	store, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		return nil, err
	}
	return failover.New(store, failover.Config{})
}

var getID = guard.Default().MustGuard(guard.Resource{Name: "getId", Limits: []weir.Limit{weir.MustLimit("1000/h")}})

// GetID is limited by the rule getId, if the policies have one.
func GetID(ctx context.Context, user string) (id int, err error) {
	entry, err := getID.Enter(ctx, guard.Key(user))
	if err != nil {
		return 0, err
	}
	defer entry.Done(&err)
	return len(user), nil
}

// limited returns the handler behind the policies of the follower.
func limited(ctx context.Context, store weir.Store, follower *weirfile.Follower, counters *instances.Counters) (http.Handler, error) {
	m, err := httplimit.New(store, new(policy.Set), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { counters.Observe(e) }})
	if err != nil {
		return nil, err
	}
	follower.Adopt = func(f *weirfile.File) error {
		c := guard.Config{Store: store, Functions: f.Functions, Protections: failsafe.New}
		if err := guard.Default().Configure(c); err != nil {
			return err
		}
		return m.SetPolicies(f.Policies)
	}
	follower.Trouble = func(err error) { log.Print("policies: ", err) } // nil: the last ones are in force
	if err := follower.Load(ctx); err != nil {
		log.Print("start without policies: ", err)
	}
	go func() { _ = follower.Run(ctx) }() // its error is that of ctx

	mux := http.NewServeMux()
	mux.Handle("GET /limits", guard.Default()) // for operators
	mux.Handle("GET /id", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := GetID(r.Context(), r.FormValue("user"))
		if err != nil {
			guard.Respond(w, err)
			return
		}
		fmt.Fprintln(w, id)
	})))
	return mux, nil
}

// serve serves h until ctx ends.
func serve(ctx context.Context, h http.Handler, out io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on http://%s\n", ln.Addr())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
