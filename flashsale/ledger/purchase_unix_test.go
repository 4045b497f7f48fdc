package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
)

// BenchmarkPurchase measures the CPU time of a purchase in a ledger on SQLite: the journal, the
// order and the payment, in batches as under load.
func BenchmarkPurchase(b *testing.B) {
	const batch = 100
	l := open(b, ledger.Config{})
	j := journal(b, l)
	s, _ := stocked(b, l, 1_000_000, 0)
	began := cpuTime(b)
	for b.Loop() {
		rs, ids := make([]sale.Reservation, batch), make([]string, batch)
		for i := range rs {
			rs[i] = sale.Reservation{ID: uuid.Must(uuid.NewV7()).String(), Sale: s.ID, Epoch: 1, User: fmt.Sprint("p", rand.Int64()), Slot: 1,
				Ticket: fmt.Sprintf("click-%032x", rand.Uint64()), At: start, PayBy: start.Add(15 * time.Minute), Quantity: 1}
			ids[i] = rs[i].ID
		}
		if err := j.Append(b.Context(), s.ID, 1, rs); err != nil {
			b.Fatal(err)
		}
		if _, err := l.CreateOrders(b.Context(), 1, rs, start); err != nil {
			b.Fatal(err)
		}
		if err := j.Remove(b.Context(), s.ID, ids...); err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				p, err := l.Pay(b.Context(), sale.Payment{ID: "mock-" + uuid.Must(uuid.NewV7()).String(), Reservation: id, Amount: 9900}, start)
				if err != nil || p.RefundDue {
					b.Error(p, err)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(batch*b.N), "µs-cpu/purchase")
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
