package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/guard/instances"
)

// TestRoster checks that the admin listener shows the limited functions of Go programs while
// they run.
func TestRoster(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	node := serve(t, programtest.Weir(t), "policies: [{ name: p, key: client.ip, limits: 1/h }]\n", "--store", "redis://"+redis.Addr)
	conn, err := rueidis.Open("redis://" + redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	trouble := make(chan error, 10)

	post := func(ctx context.Context, service, function string) <-chan error {
		r, err := guard.NewRegistry(guard.Config{})
		if err != nil {
			t.Fatal(err)
		}
		g := r.MustGuard(guard.Resource{Name: function, Function: "example.com/" + service + "." + function, Limits: []weir.Limit{weir.MustLimit("1/h")}})
		for range 3 {
			e, _ := g.Enter(ctx, "")
			e.Exit(nil)
		}
		p := instances.Publisher{Conn: conn, Registry: r, Service: service, Every: 50 * time.Millisecond, OnError: func(err error) { trouble <- err }}
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		return done
	}
	ctx, stop := context.WithCancelCause(context.Background())
	shop, cart := post(ctx, "shop", "getId"), post(t.Context(), "cart", "add")
	awaitText(t, node.admin+"/v1/functions", "example.com/shop.getId")
	awaitText(t, node.admin+"/v1/functions", "example.com/cart.add")
	res, err := http.Get(node.admin + "/v1/functions")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Processes []struct {
			Service   string
			PID       int
			Functions []struct {
				Name   string
				Limits []string
				Total  struct{ Passed, Denied int64 }
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Processes {
		if got := fmt.Sprint(p.Functions); p.PID != os.Getpid() || len(p.Functions) != 1 || !strings.Contains(got, "[1/h burst 1] {1 2}") {
			t.Errorf("%s, process %d: %s, want 1 passed and 2 denied by 1/h", p.Service, p.PID, got)
		}
	}
	why := errors.New("enough")
	stop(why)
	if err := <-shop; err != why {
		t.Errorf("Run = %v, want %v", err, why)
	}
	all, err := instances.Read(t.Context(), conn)
	if err != nil || len(all) != 1 || all[0].Service != "cart" {
		t.Errorf("Read = %v, %v, want only the cart", all, err)
	}
	if ttl := redis.Do(t, "PTTL", "weir:1:{functions}"); ttl.(int64) < 0 {
		t.Error("the iterator does not end")
	}
	redis.Do(t, "ZADD", "weir:1:{functions}", "1", "long-gone")
	for id := range instances.MaxProcesses { // stale ones make room
		redis.Do(t, "ZADD", "weir:1:{functions}", strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10), "STALE"+strconv.Itoa(id))
	}
	late := instances.Process{ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Service: "late"}
	if err := instances.Post(t.Context(), conn, late); err != nil {
		t.Errorf("Post beside %d stale processes = %v", instances.MaxProcesses, err)
	}
	late.Left = true
	if err := instances.Post(t.Context(), conn, late); err != nil {
		t.Error(err)
	}
	redis.Do(t, "DEL", "weir:1:{functions}")
	awaitText(t, node.admin+"/v1/functions", "example.com/cart.add")
	redis.Do(t, "SET", "weir:1:{functions}:broken", "{")
	redis.Do(t, "ZADD", "weir:1:{functions}", "99999999999", "broken")
	if all, err := instances.Read(t.Context(), conn); err != nil || len(all) != 1 {
		t.Errorf("Read = %v, %v, want the readable entries", all, err)
	}
	if len(trouble) > 0 {
		t.Errorf("unexpected error: %v", <-trouble)
	}
	redis.Stop()
	if err := <-trouble; !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("without Redis: %v, want ErrUnavailable", err)
	}
	awaitStatus(t, node.admin+"/v1/functions", http.StatusServiceUnavailable)
	select {
	case err := <-cart:
		t.Errorf("a process stopped publishing: %v", err)
	default:
	}
	for _, p := range []instances.Publisher{{}, {Conn: conn, Registry: guard.Default()}, {Conn: conn, Registry: guard.Default(), Service: strings.Repeat("x", 65)}, {Conn: conn, Registry: guard.Default(), Service: "s", Every: instances.TTL}} {
		if err := p.Run(t.Context()); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Run of %+v = %v, want ErrInvalid", p, err)
		}
	}
	memory := serve(t, programtest.Weir(t), "policies: [{ name: p, key: client.ip, limits: 1/h }]\n")
	awaitStatus(t, memory.admin+"/v1/functions", http.StatusNotFound)
}
