package load

import "time"

// A user is one of the crowd.
type user struct {
	id            int
	next          call    // what it asks next
	outcome       outcome // unless it asks no more
	refused       int     // how often, in a row
	buys          int     // orders that it tried, each with a key of its own
	cookie        []byte  // fs_session
	name          []byte  // by the server; empty if it has a name of its own
	place         []byte
	token         []byte
	work          []byte // that a ticket costs, once it was asked for
	receipt       []byte
	order         bool // the receipt is known to be an order
	wants         call // after that: pay, cancel or look, for nothing
	polls         int
	refusedRepeat bool // asked again, it was refused, as is right if the receipt is of what is lost
	answered      bool
	misuse        int // of Mixed: what it does wrong next
}

// A fate is what became of a user.
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
	due  int64 // nanoseconds since the run began
	user int32
}

// A line is a heap of events, the earliest first, and among equals the lowest user.
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

// pop takes the first; the line must not be empty.
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

// soon is how long a user waits where the server says nothing.
const soon = 200 * time.Millisecond
