package meminventory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
)

func newEngine(b *testing.B) *meminventory.Inventory {
	b.Helper()
	e, err := meminventory.New(meminventory.Config{MaxTickets: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Stop)
	return e
}

// names are made before the clock runs.
func names(n int) (users, tickets []string) {
	for i := range n {
		users, tickets = append(users, name(i)), append(tickets, fmt.Sprintf("%036d", i))
	}
	return users, tickets
}

// BenchmarkCrowd lets 100,000 users join and look once: one op is one call.
func BenchmarkCrowd(b *testing.B) {
	users, tickets := names(crowd)
	for _, queue := range []sale.Queue{sale.Fifo, sale.Shuffled} {
		b.Run(string(queue), func(b *testing.B) {
			e := newEngine(b)
			epoch := int64(0)
			calls := 0
			b.ReportAllocs()
			for b.Loop() {
				epoch++
				openBench(b, e, epoch, queue, 1000)
				var next atomic.Int64
				parallel(b, 128, func() {
					for i := int(next.Add(1)) - 1; i < crowd; i = int(next.Add(1)) - 1 {
						lot := int64(0)
						if queue == sale.Shuffled {
							lot = 1 + int64(i)*7_919_777_777%sale.MaxLot
						}
						if _, err := e.Join(context.Background(), sale.JoinRequest{Sale: "s", Epoch: epoch, User: users[i], Ticket: tickets[i], Lot: lot}); err != nil {
							b.Error(err)
						}
						if _, err := e.Status(context.Background(), "s", epoch, users[i]); err != nil {
							b.Error(err)
						}
					}
				})
				calls += 2 * crowd
			}
			b.ReportMetric(float64(calls)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func parallel(b *testing.B, n int, f func()) {
	b.Helper()
	done := make(chan struct{})
	for range n {
		go func() { f(); done <- struct{}{} }()
	}
	for range n {
		<-done
	}
}

func openBench(b *testing.B, e *meminventory.Inventory, epoch int64, queue sale.Queue, stock int64) {
	b.Helper()
	now := time.Now()
	starts := now.Add(-time.Hour)
	if queue == sale.Shuffled {
		starts = now.Add(time.Hour)
	}
	o := sale.InitialState{Sale: sale.Sale{ID: "s", Epoch: epoch, Draft: sale.Draft{
		Stock: stock, PerUser: 1, Queue: queue, StartsAt: starts, EndsAt: starts.Add(24 * time.Hour), PayWithin: time.Minute, Lobby: 2 * time.Hour,
	}}}
	if err := e.Open(b.Context(), o); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLook asks where one of 100,000 stands, serially and by many.
func BenchmarkLook(b *testing.B) {
	e := newEngine(b)
	fill(b, e)
	users, _ := names(crowd)
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := e.Status(context.Background(), "s", 1, users[i*7919%crowd]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(64)
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := e.Status(context.Background(), "s", 1, users[int(n.Add(1))*7919%crowd]); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkReserve buys a unit: Join and Reserve of a new user each, with a journal in
// memory. BenchmarkRefused is the answer when none is free.
func BenchmarkReserve(b *testing.B) { reserveBench(b, 1<<40) }

func BenchmarkRefused(b *testing.B) { reserveBench(b, 0) }

func reserveBench(b *testing.B, stock int64) {
	b.Helper()
	e := newEngine(b)
	openBench(b, e, 1, sale.Direct, stock)
	until := time.Now().Add(time.Hour)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			user, ticket := fmt.Sprint("user", i), fmt.Sprintf("%036d", i)
			if _, err := e.Join(context.Background(), sale.JoinRequest{Sale: "s", Epoch: 1, User: user, Ticket: ticket, Batch: "b", Until: until}); err != nil {
				b.Error(err)
			}
			if _, err := e.Reserve(context.Background(), sale.ReserveRequest{Sale: "s", Epoch: 1, User: user, Ticket: ticket, Reservation: ticket}); err != nil {
				b.Error(err)
			}
		}
	})
}
