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
	maxTickets int // bounds users and reservations

	closed bool
	paused bool
	stock  int64
	free   int64
	paid   int64 // the largest number that SetPaid set
	rank   int64 // the highest that was assigned

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
	until    int64
	group    *group
	last     *reservation
	reserved []*reservation // ordered by slot
	made     int            // all reservations, returned ones included
	state    ticketState
}

type ticketState uint8

const (
	noTicket ticketState = iota
	waiting
	admitted // or expired, from until on
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
		starts: micros(o.Sale.StartsAt), ends: micros(o.Sale.EndsAt), lobby: o.Sale.Lobby.Milliseconds() * 1000,
		shuffled: o.Sale.Queue == sale.Shuffled, perUser: o.Sale.PerUser, pay: o.Sale.PayWithin, maxTickets: room,
		paused: o.Sale.State == sale.Paused, stock: o.Sale.Stock, free: o.Sale.Stock, paid: o.Sale.Paid,
		users: make(map[string]*userState), reservations: make(map[string]*reservation), tickets: make(map[string]*reservation),
		keys: make(map[userKey]*reservation), stream: st,
	}
	for _, rs := range [][]sale.Reservation{o.Reserved, o.Pending} {
		for _, r := range rs {
			s.addReservation(s.user(r.User), &reservation{Reservation: r})
		}
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

// addReservation adds h to the reservations of p and takes a free unit.
func (s *state) addReservation(p *userState, h *reservation) {
	s.free--
	s.reservations[h.ID] = h
	s.tickets[h.Ticket] = h
	if h.Key != "" {
		s.keys[userKey{h.User, h.Key}] = h
	}
	at, _ := slices.BinarySearchFunc(p.reserved, h.Slot, func(h *reservation, slot int) int { return h.Slot - slot })
	p.reserved = slices.Insert(p.reserved, at, h)
	p.made++
}

func (s *state) expired(p *userState, now int64) bool { return p.state == admitted && now >= p.until }

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
	switch {
	case p.state == waiting:
		st.State, st.Ahead = sale.Waiting, s.queue.ahead(p.rank)
	case p.state == spent:
		last := p.last.Reservation
		st.State, st.Last = sale.Spent, &last
	case s.expired(p, now):
		st.State = sale.TicketExpired
	default:
		st.State, st.Batch, st.Until = sale.Admitted, p.batch, timeOf(p.until)
	}
	return st
}

func (s *state) join(j *sale.JoinRequest, now int64) sale.TicketStatus {
	p := s.users[j.User]
	if p != nil && p.state != noTicket &&
		(p.state == waiting || p.state == admitted && !s.expired(p, now) || p.ticket == j.Ticket) {
		return s.status(p, now)
	}
	if why := s.joinRefused(p, j, now); why != sale.OK {
		st := s.status(p, now)
		st.Reason = why
		return st
	}
	p = s.user(j.User)
	first := p.state == noTicket
	p.ticket, p.rank, p.batch, p.until, p.group, p.last = j.Ticket, s.nextRank(j, first, now), j.Batch, 0, nil, nil
	s.rank = max(s.rank, p.rank)
	if j.Batch != "" {
		s.admitOne(p, j.Batch, micros(j.Until), now)
	} else {
		p.state = waiting
		s.queue.add(p)
	}
	return s.status(p, now)
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
	case p != nil && s.atLimit(p):
		return sale.PerUserLimit
	case j.Batch == "" && j.Max > 0 && int64(s.queue.n) >= j.Max, p == nil && len(s.users) >= s.maxTickets, len(s.reservations) >= s.maxTickets:
		return sale.QueueFull
	}
	return sale.OK
}

func (s *state) nextRank(j *sale.JoinRequest, first bool, now int64) int64 {
	var rank int64
	switch {
	case j.Rank > 0 && first:
		rank = j.Rank
	case j.Lot > 0 && s.shuffled && now < s.starts:
		rank = j.Lot
	default:
		return max(s.rank+1, now)
	}
	for s.queue.has(rank) {
		rank++
	}
	return rank
}

func (s *state) admitOne(p *userState, batch string, until, now int64) {
	p.state, p.batch, p.until = admitted, batch, until
	s.tokens.expire(now)
	if until > now {
		p.group = s.tokens.add(until)
	}
}

func (s *state) admit(batch string, n int, until, now int64) int {
	if s.paused || now < s.starts || now >= s.ends || until <= now {
		return 0
	}
	for i := range n {
		p := s.queue.pop()
		if p == nil {
			return i
		}
		s.admitOne(p, batch, until, now)
	}
	return n
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
		return sale.ReserveResult{Reason: why}, nil
	}
	slot := 1
	for _, h := range p.reserved {
		if h.Slot == slot {
			slot++
		}
	}
	at := timeOf(now)
	h = &reservation{Reservation: sale.Reservation{
		ID: a.Reservation, Sale: s.id, Epoch: s.epoch, User: p.user, Slot: slot,
		Ticket: p.ticket, Key: a.Key, At: at, PayBy: at.Add(s.pay),
	}}
	s.addReservation(p, h)
	s.tokens.expire(now)
	s.tokens.use(p.group)
	p.state, p.last, p.group = spent, h, nil
	return sale.ReserveResult{Reservation: h.Reservation}, h
}

func (s *state) reserveRefused(p *userState, a *sale.ReserveRequest, now int64) sale.Reason {
	switch {
	case now >= s.ends:
		return sale.HasEnded
	case s.paused:
		return sale.IsPaused
	case now < s.starts:
		return sale.NotStarted
	case p == nil || p.state != admitted || p.ticket != a.Ticket:
		return sale.NotAdmitted
	case s.expired(p, now):
		return sale.AdmissionExpired
	case s.atLimit(p):
		return sale.PerUserLimit
	case s.free <= 0:
		return sale.IsAllTaken
	}
	return sale.OK
}

func (s *state) atLimit(p *userState) bool {
	return len(p.reserved) >= s.perUser || p.made >= sale.MaxReservations
}

// returnUnit returns a unit. It also returns the reservation, if this user has it.
func (s *state) returnUnit(user, id string) (bool, *reservation) {
	h := s.reservations[id]
	if h == nil || h.User != user {
		return false, nil
	}
	if h.returned {
		return false, h
	}
	h.returned = true
	s.free++
	p := s.users[user]
	p.reserved = slices.DeleteFunc(p.reserved, func(o *reservation) bool { return o == h })
	return true, h
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
	s.tokens.expire(now)
	return sale.Counts{
		Now: timeOf(now), Stock: s.stock, Free: s.free, Waiting: int64(s.queue.n), Outstanding: s.tokens.n,
		Reserved: s.stock - s.free, Paid: s.paid, Backlog: int64(len(s.stream.entries)), Paused: s.paused,
	}
}
