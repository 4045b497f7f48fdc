package load

import "time"

// A user is one simulated user.
type user struct {
	id            int
	next          call    // the next call
	outcome       outcome // active while the user makes calls
	refused       int     // consecutive refusals
	buys          int     // attempted orders, each with its own key
	tickets       int     // tickets so far, each with its own key if it may buy
	left          int     // units that were left when the user wanted more; 0 if enough were
	cookie        []byte  // fs_session
	name          []byte  // assigned by the server; empty if it has its own name
	place         []byte
	token         []byte
	work          []byte // the solution of the proof of work, once required
	receipt       []byte
	order         bool // whether the receipt is known to be an order
	wants         call // the next call after that: pay, cancel, or look to stop
	polls         int
	refusedRepeat string // why a repeated order was refused, which is correct if it has ended
	answered      bool
	misuse        int // Mixed: the next misuse
}

// An outcome is the result of a user.
type outcome uint8

const (
	active outcome = iota
	bought
	paid
	cancelled
	soldOut
	gaveUp
	outcomes
)

// An event is a user who is due.
type event struct {
	due  int64 // nanoseconds since the start of the run
	user int32
}

// An eventHeap is a heap of events, the earliest first, then the lowest user.
type eventHeap []event

func (l eventHeap) before(i, j int) bool {
	return l[i].due < l[j].due || l[i].due == l[j].due && l[i].user < l[j].user
}

func (l *eventHeap) push(e event) {
	*l = append(*l, e)
	h := *l
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop removes the first event of a heap that is not empty.
func (l *eventHeap) pop() event {
	h := *l
	first := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	*l = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			return first
		}
		if down+1 < len(h) && h.before(down+1, down) {
			down++
		}
		if !h.before(down, i) {
			return first
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}

// soon is the delay of a user if the server says none.
const soon = 200 * time.Millisecond
