package rlqs_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
)

// TestHungryClients lets clients take all that they can, in the worst order that the protocol allows,
// beside a process that leaves no tokens in the remainder. A network that delays, cuts and resets,
// other servers and late reports make assignments late, lost and doubled.
func TestHungryClients(t *testing.T) {
	for seed := range uint64(4) {
		limit := []string{"1000/s burst 4000", "100/s burst 400", "6000/m burst 3000", "1000/s burst 1000"}[seed]
		inWorld(t, limit, rlqs.Config{}, func(t *testing.T, w *world) {
			r := rand.New(rand.NewPCG(seed, 5))
			servers := []*machine{w.serve(), w.serve()}
			w.compete([]time.Duration{200 * time.Millisecond, 6 * time.Second}[seed%2])
			for i := range 6 {
				m := manners[i%len(manners)]
				m.hungry, m.full, m.steps = true, i%3 != 2, i%2 == 1
				w.client(servers[i%2], 5, m)
			}
			for range 120 {
				rlqs.Pass(time.Duration(r.IntN(6000)) * time.Millisecond)
				i := r.IntN(len(w.clients))
				f := w.clients[i]
				f.link.set(func(l *link) { l.up, l.down, l.cutUp, l.cutDown = 0, 0, false, false })
				switch r.IntN(8) {
				case 0:
					f.link.set(func(l *link) { l.down = time.Duration(r.IntN(2000)) * time.Millisecond })
				case 1:
					f.link.set(func(l *link) { l.up = time.Duration(r.IntN(15)) * time.Second })
				case 2:
					f.link.set(func(l *link) { l.cutUp = true })
				case 3:
					f.link.set(func(l *link) { l.cutDown = true })
				case 4:
					f.hold(time.Duration(r.IntN(20)) * time.Second)
				case 5:
					f.set(5, servers[r.IntN(2)].listener)
					f.link.reset()
				default:
					f.set([]float64{0, 0.3, 20}[r.IntN(3)], servers[i%2].listener)
				}
			}
			w.strict()
			own := w.own()
			t.Logf("%s: %d admissions, %d of them by shares, %v", limit, w.admissions(), own, w.actions())
			if own < w.admissions()/20 {
				t.Errorf("%d of %d admissions by clients, want a twentieth", own, w.admissions())
			}
		})
	}
}
