package failover

import (
	"fmt"
	"time"

	"github.com/floodweir/weir"
)

// The evidence that opens the breaker, in units of the deadline.
const (
	silence     = 3  // without a reply to any call
	wallSilence = 20 // the same by the clock of the machine, in a process that hardly runs
	windowSlots = 10 // parts of the window of the failure ratio
	slotLength  = 2

	minCalls = 20 // in the window, before the ratio counts
)

// A State is the state of a store, as the results of its calls show it.
type State string

// The states. The circuit breaker is closed while the store is Up.
const (
	Up   State = "up"
	Slow State = "slow" // it replies, but most replies are later than the deadline
	Down State = "down" // it does not reply, or most of its replies are errors
)

// A breaker decides whether the store is called. It opens on evidence about the store: no
// reply to any call in a time, or a ratio of failures in a sliding window. A few late calls
// at the same time are one event, not many. All methods require the mutex of the Store, and
// now is the time of the process clock.
type breaker struct {
	deadline time.Duration
	longest  time.Duration // cool-down
	jitter   func() float64

	state    State
	cause    error         // why it is open
	openErr  error         // of requests while it is open
	until    time.Time     // the end of the cool-down
	cooldown time.Duration // the next one
	probe    *call         // in flight; nil if none is

	lastReply      time.Duration
	unanswered     time.Duration // when the oldest call was sent that failed since the last reply
	unansweredWall time.Time
	pending        bool // unanswered is set
	slow           bool // the last reply was late
	window         [windowSlots]slot
}

// A slot has the calls that ended in one part of the window.
type slot struct {
	number              int64
	calls, failed, late int
}

// refuse returns the error of a call while the breaker is open. After the cool-down one call
// at a time is a probe.
func (b *breaker) refuse() error {
	if b.state != Up && (b.probe != nil || time.Now().Before(b.until)) {
		return b.openErr
	}
	return nil
}

// reply records that a reply was read, late or not: the store is alive. While the breaker is
// open the next request is a probe, without a further cool-down.
func (b *breaker) reply(now time.Duration) {
	b.lastReply, b.pending = now, false
	if b.state != Up {
		b.until = time.Time{}
	}
}

// success ends a call with a reply within the deadline.
func (b *breaker) success(c *call, now time.Duration) {
	b.reply(now)
	b.slow = false
	b.slot(now).calls++
	if b.probe == c {
		b.close()
	}
}

// fail ends a call without a decision, or with a late one.
func (b *breaker) fail(c *call, now time.Duration, late bool, err error) {
	s := b.slot(now)
	s.calls++
	s.failed++
	if late {
		s.late++
	}
	if b.probe == c {
		b.probe = nil
		b.coolDown(err)
	}
	b.noReply(c, now, err)
}

// noReply records that a call has no reply yet. A canceled call is no failure, but if all
// callers cancel before the deadline and the store does not reply, it is down.
func (b *breaker) noReply(c *call, now time.Duration, err error) {
	if !b.pending || c.since < b.unanswered {
		b.pending, b.unanswered, b.unansweredWall = true, c.since, c.began
	}
	if b.state != Up {
		return
	}
	if quiet := b.quiet(now); quiet >= silence*b.deadline || time.Since(b.unansweredWall) >= wallSilence*b.deadline {
		b.open(Down, fmt.Errorf("no reply in %v, the last error: %w", quiet.Round(time.Millisecond), err))
		return
	}
	calls, failed, late := b.recent(now)
	if calls < minCalls || 2*failed < calls {
		return
	}
	state := Down
	if 2*late >= failed {
		state = Slow
	}
	b.open(state, fmt.Errorf("%d of %d calls failed, %d of them late, the last error: %w", failed, calls, late, err))
}

// quiet returns for how long no call got a reply, by the process clock; 0 if none failed
// since the last reply.
func (b *breaker) quiet(now time.Duration) time.Duration {
	if !b.pending {
		return 0
	}
	return now - max(b.lastReply, b.unanswered)
}

// abandon ends a probe without a result: the next request is a probe.
func (b *breaker) abandon(c *call) {
	if b.probe == c {
		b.probe = nil
	}
}

func (b *breaker) open(state State, err error) {
	b.state, b.cooldown = state, b.deadline
	b.coolDown(err)
}

// coolDown begins a cool-down, and doubles the next one up to the longest. The jitter only
// shortens it: while the time without the store doubles, the breaker stays open for at most
// as long again after the store is back.
func (b *breaker) coolDown(err error) {
	d := min(b.cooldown, b.longest)
	d -= time.Duration(b.jitter() * float64(d) / 2)
	b.until = time.Now().Add(d)
	b.cooldown = min(2*b.cooldown, b.longest)
	b.cause = err
	b.openErr = fmt.Errorf("failover: %w: the circuit breaker is open: %w", weir.ErrUnavailable, err)
}

func (b *breaker) close() {
	b.state, b.cause, b.openErr = Up, nil, nil
	b.probe, b.pending = nil, false
	b.window = [windowSlots]slot{}
}

// slot returns the current part of the window.
func (b *breaker) slot(now time.Duration) *slot {
	number := int64(max(0, now) / (slotLength * b.deadline))
	s := &b.window[number%windowSlots]
	if s.number != number {
		*s = slot{number: number}
	}
	return s
}

// recent returns the sums of the window.
func (b *breaker) recent(now time.Duration) (calls, failed, late int) {
	oldest := int64(now/(slotLength*b.deadline)) - windowSlots + 1
	for i := range b.window {
		if s := &b.window[i]; s.number >= oldest {
			calls, failed, late = calls+s.calls, failed+s.failed, late+s.late
		}
	}
	return calls, failed, late
}

// jitter returns a number in [0, 1) that depends on the nanosecond in which it is called.
// Processes do not share that, and a run in virtual time can be repeated.
func jitter() float64 {
	x := uint64(time.Now().UnixNano()) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return float64(x>>11) / (1 << 53)
}
