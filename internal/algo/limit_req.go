package algo

import "fmt"

// A LimitReq is nginx's limit_req to the letter, for those who move from it or
// stand beside it and want the same answers.
//
// The idea: a leaky bucket whose backlog is counted in thousandths of a request
// and drained by whole milliseconds. nginx stores excess = backlog − 1000, which
// is what has piled up beyond the request in service.
//
//	rate     = count·1000 per second, cut to a whole number
//	ms       = ⌊now⌋ − last in milliseconds; less than −60000 counts as 1, and any
//	           other negative as 0
//	backlog' = max(0, backlog − ⌊rate·ms/1000⌋) + n·1000
//	admit n  ⇔  backlog' ≤ (burst + 1)·1000
//	then        backlog ← backlog', and last ← now if ms ≠ 0
//	delay    = ⌊(backlog' − 1000 − free·1000)·1000/rate⌋ ms, if positive
//
// Invariant: backlog ≤ (burst + 1)·1000 after every admission; the decisions, the
// excess and the delays are those of nginx for the same instants in milliseconds.
//
// Source: nginx, src/http/modules/ngx_http_limit_req_module.c,
// ngx_http_limit_req_lookup and ngx_http_limit_req_account.
//
// Deviation: a request may count for more than one; one that counts for none does
// not move last, and so cuts no fraction off what drains. nginx forgets a key when its
// memory is full; here it is new once its backlog has drained, which no decision
// shows. A clock that goes back by more than a minute drains the backlog of one
// millisecond, as nginx does, although no other rule gains from such a clock.
type LimitReq struct {
	rate  int64 // thousandths of a request per second
	room  int64 // (burst + 1)·1000
	most  int64 // the largest backlog, debt included
	grace int64 // (1 + free)·1000
	burst int64
	q     Queueing
}

// The state of a LimitReq.
const (
	reqLast    = iota // ms since the epoch, at least 1
	reqBacklog        // thousandths of a request
	limitReqWords
)

// NewLimitReq makes the rule of count per period µs with room for burst beyond
// the one in service. It refuses a rate below one thousandth of a request per
// second, and a rate or burst too large for exact products. The error wraps ErrRange
// or ErrInexact, and names the accepted values.
func NewLimitReq(count, period, burst int64, q Queueing) (*LimitReq, error) {
	if _, err := newEmission(count, period); err != nil {
		return nil, err
	}
	const most = MaxInstant / 2
	rate := mulDiv(count, 1000*1_000_000, period, most+1)
	switch {
	case rate < 1:
		return nil, fmt.Errorf("count %d: %w: limit_req has thousandths of a request per second, and this is less than one: want at least %d per %d µs",
			count, ErrRange, ceilDiv(period, 1000*1_000_000), period)
	case rate > most:
		return nil, fmt.Errorf("count %d: %w: want at most %d per %d µs", count, ErrInexact, mulDiv(most, period, 1000*1_000_000, MaxCount), period)
	}
	b := &LimitReq{rate: rate, burst: burst, q: q}
	// A product with the rate stays below 2^53, and a debt below 100 years.
	b.most = min((MaxInstant-rate)/1000, mulDiv(rate, MaxSpan/1000, 1000, MaxInstant))
	if largest := b.most/1000 - 1; burst < 0 || burst > largest {
		return nil, fmt.Errorf("burst %d: %w: want 0 to %d at %d per %d µs", burst, ErrInexact, largest, count, period)
	}
	if err := q.check(burst); err != nil {
		return nil, err
	}
	b.room, b.grace = (burst+1)*1000, (1+q.Free)*1000
	return b, nil
}

// Name implements [Rule].
func (b *LimitReq) Name() string { return "limit_req" }

// Params are the rate in thousandths per second, the room and the largest
// backlog in thousandths, then 1 for a queue or 0, and (1 + free)·1000.
func (b *LimitReq) Params(int64) []int64 {
	return []int64{b.rate, b.room, b.most, flag(b.q.Queue), b.grace}
}

// Words implements [Rule]: the ms of the last admission, and the backlog.
func (b *LimitReq) Words() int { return limitReqWords }

// Variable implements [Rule].
func (b *LimitReq) Variable() bool { return false }

// Capacity implements [Rule].
func (b *LimitReq) Capacity() int64 { return b.burst + 1 }

// Horizon implements [Rule].
func (b *LimitReq) Horizon() int64 { return b.drained(b.room) * 1000 }

// drained is after how many ms a backlog is gone.
func (b *LimitReq) drained(backlog int64) int64 { return ceilDiv(backlog*1000, b.rate) }

// Do implements [Rule].
func (b *LimitReq) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, limitReqWords)
	now := max(1, a.Now/1000)
	last, backlog := s[reqLast], s[reqBacklog]
	var ms int64
	if backlog == 0 {
		last = now
	} else if ms = now - last; ms < -60000 {
		ms = 1
	} else if ms < 0 {
		ms = 0
	}
	if ms < b.drained(backlog) {
		backlog = max(0, backlog-b.rate*ms/1000)
	} else {
		backlog = 0
	}
	r := Result{OK: true}
	after := backlog
	if a.N == 0 {
		a.Op = Peek // nothing moves, not even last
	}
	switch a.Op {
	case Take, Peek:
		r.Retry = b.wait(s, backlog, a.N, a.Now)
		if r.OK = r.Retry == 0; !r.OK {
			break
		}
		after += a.N * 1000
		r.Delay = b.delay(after, a.N)
		if a.Op == Peek {
			after = backlog
		} else {
			r.Granted = a.N
		}
	case TakeUpTo:
		n := min(a.N, max(0, floorDiv(b.room-backlog, 1000)))
		if n == 0 && a.N > 0 {
			r.OK, r.Retry = false, b.wait(s, backlog, 1, a.Now)
			break
		}
		after += n * 1000
		r.Granted, r.Delay = n, b.delay(after, n)
	case Charge:
		after = max(backlog, min(b.most, backlog+min(a.N, MaxCount)*1000))
		r.Granted = a.N
	case Return:
		after = max(0, backlog-min(a.N, MaxCount)*1000)
	}
	r.Balance = floorDiv(b.room-after, 1000)
	if !r.OK || a.Op == Peek {
		r.Reset = max(0, b.Until(s)-a.Now)
		return s, r
	}
	if after == 0 {
		return zero(s), r
	}
	if ms != 0 {
		last = now
	}
	s[reqLast], s[reqBacklog] = last, after
	r.Reset = b.Until(s) - a.Now
	return s, r
}

// wait returns the time until n fit: the first µs of the first ms that has drained
// enough of the state s, whose backlog has drained to backlog by now.
func (b *LimitReq) wait(s []int64, backlog, n, now int64) int64 {
	switch {
	case n == 0 || n <= b.burst+1 && backlog+n*1000 <= b.room:
		return 0
	case n > b.burst+1:
		return Never
	}
	return (s[reqLast]+b.drained(s[reqBacklog]+n*1000-b.room))*1000 - now
}

// delay is for how long, in µs, to hold back n that made the backlog what it is.
func (b *LimitReq) delay(backlog, n int64) int64 {
	if !b.q.Queue || n == 0 || backlog <= b.grace {
		return 0
	}
	return (backlog - b.grace) * 1000 / b.rate * 1000
}

// Until implements [Rule].
func (b *LimitReq) Until(s []int64) int64 {
	if len(s) < limitReqWords || s[reqBacklog] == 0 {
		return 0
	}
	return (s[reqLast] + b.drained(s[reqBacklog])) * 1000
}

// Shift implements [Rule]. It moves by the whole milliseconds in d, so that
// nothing drains that had not.
func (b *LimitReq) Shift(s []int64, d int64) {
	if len(s) >= limitReqWords && s[reqLast] > 0 {
		s[reqLast] = max(1, s[reqLast]-floorDiv(d, 1000))
	}
}

// floorDiv is ⌊a/b⌋ for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
