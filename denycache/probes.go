package denycache

import (
	"sync"
	"time"
)

// probes are the calls of the store by requests that equal a denied one, after its denial has
// ended. One is in progress at a time, and further requests wait. An admission permits one
// more, and a denial halves the number. So there are about two calls for each admission, also if
// several tokens become available in a round trip.
type probes struct {
	mu        sync.Mutex
	running   int
	admitted  int           // recent admissions, each of which permits a probe
	total     uint32        // admissions
	roundTrip time.Duration // a recent long one
	denial    chan struct{} // closed at a denial that may hold for waiting requests; nil without one

	free chan struct{} // gets an element for each probe that may begin
}

func newProbes() *probes { return &probes{running: 1, free: make(chan struct{}, 1)} }

// A result is the result of a probe.
type result int

const (
	undecided result = iota // by an error, or if tokens are left; no request waits any more
	admitted                // and probably no token is left
	denied
	outdated // denied, but a state has changed meanwhile
)

const (
	// maxWaits bounds how often a request waits for probes.
	maxWaits = 2

	// minWait is the shortest of these times, if no probe ends.
	minWait = 2500 * time.Microsecond

	// maxRoundTrip bounds the round trip by which a request waits.
	maxRoundTrip = 50 * time.Millisecond
)

// begin returns nil if the caller is to call the store, as it must if must is set, and then
// call end. Otherwise it returns a channel that is closed at a denial. A caller that has waited
// already is one probe more.
func (p *probes) begin(waits int, must bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if must || p.running < max(1, p.admitted)+waits {
		p.running++
		return nil
	}
	if p.denial == nil {
		p.denial = make(chan struct{})
	}
	return p.denial
}

// admissions returns the number of admissions.
func (p *probes) admissions() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// wait returns the time for which a request waits for probes.
func (p *probes) wait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roundTrip + minWait
}

// leave ends what begin began, without a call.
func (p *probes) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.wake()
}

// end ends what begin began, with the duration of the call.
func (p *probes) end(r result, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if r != undecided {
		// After a long round trip, this decreases slowly: on a busy machine the next one can
		// take as long.
		p.roundTrip = max(min(took, maxRoundTrip), p.roundTrip-p.roundTrip/64)
	}
	switch r {
	case admitted:
		p.admitted++
	case denied, outdated:
		p.admitted /= 2
	}
	if p.denial != nil && (r == denied || r == undecided) {
		close(p.denial)
		p.denial = nil
	}
	p.wake()
}

// wake wakes waiting requests, the oldest first, for the probes that may begin. It requires mu.
func (p *probes) wake() {
	for range max(1, p.admitted) - p.running {
		select {
		case p.free <- struct{}{}:
		default:
			return
		}
	}
}
