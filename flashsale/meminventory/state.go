package meminventory

import (
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// state is the state of a sale at one epoch. One goroutine uses it. Times are microseconds; all
// except now are whole milliseconds.
type state struct {
	id         string
	epoch      int64
	starts     int64
	ends       int64
	lobby      int64
	shuffled   bool
	perUser    int
	pay        time.Duration
	headroom   int64
	tokenFor   int64
	maxTickets int   // bounds users and reservations
	version    int64 // of the sale that has these settings

	closed bool
	paused bool
	stock  int64
	free   int64
	paid   int64 // the largest number that SetPaid set; a return lowers it to the reserved ones
	rank   int64 // the last that was assigned without a penalty
	turns  int64 // tickets that were admitted by a poll
	left   int64 // users whom park removed and who were not restored

	users        map[string]*userState
	queue        queue
	tokens       tokens
	reservations map[string]*reservation // by ID, returned ones included
	tickets      map[string]*reservation
	keys         map[userKey]*reservation
	stream       *stream
}

type userKey struct{ user, key string }

// userState is the state of a user with a ticket or a unit.
type userState struct {
	user     string
	ticket   string
	batch    string
	rank     int64
	until    int64 // of the admission
	seen     int64 // the ticket is absent from then on; 0 if it needs no presence
	place    queued
	group    *group
	last     *reservation
	reserved []*reservation // ordered by slot
	unpaid   int            // reservations that were returned as unpaid, also in earlier epochs
	state    ticketState
}

type ticketState uint8

const (
	noTicket ticketState = iota
	waiting              // or absent, from seen on
	admitted             // or expired, from until on; or absent
	spent
)

// reservation is a reservation with its state.
type reservation struct {
	sale.Reservation
	returned bool
	batch    *journalBatch // being appended to the journal; nil when it is there
}

func micros(t time.Time) int64 { return t.UnixMilli() * 1000 }

func timeOf(micros int64) time.Time { return time.UnixMilli(micros / 1000).UTC() }

// newState builds the state of a valid InitialState.
func newState(o *sale.InitialState, room int, st *stream) *state {
	s := &state{
		id: o.Sale.ID, epoch: o.Sale.Epoch,
		version: o.Sale.Version, starts: micros(o.Sale.StartsAt), ends: micros(o.Sale.EndsAt), lobby: o.Sale.Lobby.Milliseconds() * 1000,
		shuffled: o.Sale.Queue == sale.Shuffled, perUser: o.Sale.PerUser, pay: o.Sale.PayWithin, maxTickets: room,
		headroom: int64(o.Sale.Headroom), tokenFor: o.Sale.TokenFor.Milliseconds() * 1000,
		paused: o.Sale.State == sale.Paused, stock: o.Sale.Stock, free: o.Sale.Stock, paid: o.Sale.Paid,
		users: make(map[string]*userState), reservations: make(map[string]*reservation), tickets: make(map[string]*reservation),
		keys: make(map[userKey]*reservation), stream: st,
	}
	for _, rs := range [][]sale.Reservation{o.Reserved, o.Pending} {
		for _, r := range rs {
			r.Quantity = int(r.Units())
			s.addReservation(s.user(r.User), &reservation{Reservation: r})
		}
	}
	for user, n := range o.Unpaid {
		s.user(user).unpaid = n
	}
	return s
}

func (s *state) user(user string) *userState {
	p := s.users[user]
	if p == nil {
		p = &userState{user: user}
		s.users[user] = p
	}
	return p
}

// addReservation adds h to the reservations of p and takes its units.
func (s *state) addReservation(p *userState, h *reservation) {
	s.free -= h.Units()
	s.reservations[h.ID] = h
	s.tickets[h.Ticket] = h
	if h.Key != "" {
		s.keys[userKey{h.User, h.Key}] = h
	}
	at, _ := slices.BinarySearchFunc(p.reserved, h.Slot, func(h *reservation, slot int) int { return h.Slot - slot })
	p.reserved = slices.Insert(p.reserved, at, h)
}

// status returns the status of p, which may be nil.
func (s *state) status(p *userState, now int64) sale.TicketStatus {
	st := sale.TicketStatus{State: sale.NoTicket}
	if p == nil {
		return st
	}
	for _, h := range p.reserved {
		st.Reserved = append(st.Reserved, h.Reservation)
	}
	if p.state == noTicket {
		return st
	}
	st.Ticket, st.Rank = p.ticket, p.rank
	switch s.situation(p, now) {
	case isWaiting:
		st.State, st.Ahead, st.Poll = sale.Waiting, s.queue.ahead(p.rank), s.interval(p)
	case isAbsent:
		st.State, st.Ahead, st.Absent, st.Poll = sale.Waiting, s.queue.ahead(p.rank), true, s.interval(p)
	case isSpent:
		last := p.last.Reservation
		st.State, st.Last = sale.Spent, &last
	case isOver:
		st.State = sale.TicketExpired
	default:
		st.State, st.Batch, st.Until, st.Poll = sale.Admitted, p.batch, timeOf(p.until), sale.TurnPoll
	}
	return st
}

// join gives a user a ticket and polls. It also returns a new reservation.
func (s *state) join(j *sale.JoinRequest, now int64) (sale.TicketStatus, *reservation) {
	s.park(now, parkPerCall)
	p := s.users[j.User]
	switch at := s.situation(p, now); {
	case at == isWaiting, at == isAbsent, at == isAdmitted:
		return s.pollOf(j, now)
	case at != hasNone && p.ticket == j.Ticket:
		return s.status(p, now), nil
	}
	if h := s.tickets[j.Ticket]; h != nil && h.User == j.User {
		return s.status(p, now), nil
	}
	if why := s.joinRefused(p, j, now); why != sale.OK {
		st := s.status(p, now)
		st.Reason = why
		return st, nil
	}
	p = s.user(j.User)
	if p.place.at > 0 {
		s.queue.remove(p) // overdue for longer than it can be restored
		s.left++
	}
	rank := s.nextRank(p, j, now)
	p.ticket, p.rank, p.batch, p.until, p.seen, p.group, p.last = j.Ticket, rank, j.Batch, 0, 0, nil, nil
	if j.Batch != "" {
		p.state, p.until = admitted, micros(j.Until)
		s.tokens.expire(now)
		if p.until > now {
			p.group = s.tokens.add(p.until)
		}
		return s.status(p, now), nil
	}
	p.state = waiting
	s.queue.add(p)
	return s.pollOf(j, now)
}

// pollOf is the poll that is part of a Join.
func (s *state) pollOf(j *sale.JoinRequest, now int64) (sale.TicketStatus, *reservation) {
	p := s.users[j.User]
	if p.place.at > 0 && p.seen == 0 {
		s.see(p, now) // a new ticket is present
	}
	return s.poll(&sale.PollRequest{User: j.User, Reservation: j.Reservation, MaxBacklog: j.MaxBacklog, MaxUnits: j.MaxUnits, Quantity: j.Quantity}, now)
}

func (s *state) joinRefused(p *userState, j *sale.JoinRequest, now int64) sale.Reason {
	opens := s.starts
	if s.shuffled && j.Batch == "" {
		opens -= s.lobby
	}
	switch {
	case now >= s.ends:
		return sale.HasEnded
	case s.paused && j.Batch != "":
		return sale.IsPaused
	case now < opens:
		return sale.NotStarted
	case s.atLimit(p, j.MaxUnits, j.Quantity):
		return sale.PerUserLimit
	case j.Batch == "" && j.Max > 0 && int64(s.queue.len()) >= j.Max, p == nil && len(s.users) >= s.maxTickets, len(s.reservations) >= s.maxTickets:
		return sale.QueueFull
	}
	return sale.OK
}

// nextRank returns the rank of a new ticket of p.
func (s *state) nextRank(p *userState, j *sale.JoinRequest, now int64) int64 {
	var rank int64
	penalty := sale.Penalty(p.unpaid, s.pay).Microseconds()
	switch {
	case j.Rank > 0 && p.state == noTicket:
		rank, penalty = j.Rank, 0
	case j.Lot > 0 && s.shuffled && now < s.starts:
		rank = j.Lot + penalty
	default:
		rank = max(s.rank+1, now) + penalty
	}
	for s.queue.has(rank) {
		rank++
	}
	if penalty == 0 {
		s.rank = max(s.rank, rank)
	}
	return rank
}

// reserve returns also the new or earlier reservation, or nil if it refuses.
func (s *state) reserve(a *sale.ReserveRequest, now int64) (sale.ReserveResult, *reservation) {
	h := s.tickets[a.Ticket]
	if h == nil || h.User != a.User {
		h = nil
		if a.Key != "" {
			h = s.keys[userKey{a.User, a.Key}]
		}
	}
	if h != nil {
		return sale.ReserveResult{Repeated: true, Reservation: h.Reservation}, h
	}
	p := s.users[a.User]
	if why := s.reserveRefused(p, a, now); why != sale.OK {
		o := sale.ReserveResult{Reason: why}
		if why == sale.FewLeft {
			o.Left = s.free
		}
		return o, nil
	}
	h = s.take(p, a.Reservation, a.Key, quantity(a.Quantity), now)
	return sale.ReserveResult{Reservation: h.Reservation}, h
}

// take reserves free units for the waiting or admitted ticket of p.
func (s *state) take(p *userState, id, key string, units int64, now int64) *reservation {
	at := timeOf(now)
	h := &reservation{Reservation: sale.Reservation{
		ID: id, Sale: s.id, Epoch: s.epoch, User: p.user, Slot: p.unusedSlot(),
		Ticket: p.ticket, Key: key, At: at, PayBy: at.Add(s.pay), Quantity: int(units),
	}}
	s.addReservation(p, h)
	if p.state == waiting {
		s.queue.remove(p)
	} else {
		s.tokens.expire(now)
		s.tokens.use(p.group)
	}
	p.state, p.last, p.group, p.seen = spent, h, nil, 0
	return h
}

// transfer reports whether the state has a reservation of an earlier epoch now, and returns it.
func (s *state) transfer(r sale.Reservation) (ok, isNew bool, h *reservation) {
	if h := s.reservations[r.ID]; h != nil {
		return h.User == r.User, false, h
	}
	p := s.users[r.User]
	r.Quantity = int(r.Units())
	if s.free < r.Units() || s.tickets[r.Ticket] != nil || r.Key != "" && s.keys[userKey{r.User, r.Key}] != nil ||
		p.units()+r.Units() > int64(s.perUser) || p == nil && len(s.users) >= s.maxTickets || len(s.reservations) >= s.maxTickets {
		return false, false, nil
	}
	p = s.user(r.User)
	if r.Slot < 1 || r.Slot > s.perUser || slices.ContainsFunc(p.reserved, func(h *reservation) bool { return h.Slot == r.Slot }) {
		r.Slot = p.unusedSlot()
	}
	h = &reservation{Reservation: r}
	s.addReservation(p, h)
	return true, true, h
}

// unusedSlot returns the lowest slot without a reservation.
func (p *userState) unusedSlot() int {
	slot := 1
	for _, h := range p.reserved {
		if h.Slot == slot {
			slot++
		}
	}
	return slot
}

func (s *state) reserveRefused(p *userState, a *sale.ReserveRequest, now int64) sale.Reason {
	switch {
	case now >= s.ends:
		return sale.HasEnded
	case s.paused:
		return sale.IsPaused
	case now < s.starts:
		return sale.NotStarted
	case p == nil || p.state != admitted || p.ticket != a.Ticket || s.situation(p, now) == isAbsent:
		return sale.NotAdmitted
	case s.situation(p, now) == isOver:
		return sale.AdmissionExpired
	case s.atLimit(p, a.MaxUnits, a.Quantity):
		return sale.PerUserLimit
	case s.free <= 0:
		return sale.IsAllTaken
	case s.free < quantity(a.Quantity):
		return sale.FewLeft
	}
	return sale.OK
}

// returnUnits returns the units of a reservation. It also returns the reservation, if this user
// has it.
func (s *state) returnUnits(user, id string, unpaid bool) (bool, *reservation) {
	h := s.reservations[id]
	if h == nil || h.User != user {
		return false, nil
	}
	if h.returned {
		return false, h
	}
	h.returned = true
	s.free += h.Units()
	s.paid = min(s.paid, s.stock-s.free)
	p := s.users[user]
	p.reserved = slices.DeleteFunc(p.reserved, func(o *reservation) bool { return o == h })
	if unpaid {
		p.unpaid++
	}
	return true, h
}

func (s *state) setTerms(t sale.Terms) {
	if t.Version > s.version {
		s.version, s.ends, s.perUser, s.pay = t.Version, micros(t.EndsAt), t.PerUser, t.PayWithin
	}
}

func (s *state) setStock(stock int64) error {
	if stock < s.stock {
		return fmt.Errorf("meminventory: stock of %s: got %d, want %d or more: %w", s.id, stock, s.stock, sale.ErrInvalid)
	}
	s.free += stock - s.stock
	s.stock = stock
	return nil
}

func (s *state) counts(now int64) sale.Counts {
	s.park(now, parkPerCount)
	s.tokens.expire(now)
	return sale.Counts{
		Now: timeOf(now), Stock: s.stock, Free: s.free, Waiting: int64(s.queue.len()), Outstanding: s.tokens.n,
		Reserved: s.stock - s.free, Paid: s.paid, Backlog: int64(len(s.stream.entries)),
		Turns: s.turns, Left: s.left, Paused: s.paused,
	}
}
