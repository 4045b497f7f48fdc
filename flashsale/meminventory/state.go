package meminventory

import (
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A state of a sale at one epoch. One goroutine uses it. Times are microseconds, in whole
// milliseconds but for now.
type state struct {
	id       string
	epoch    int64
	starts   int64
	ends     int64
	lobby    int64
	shuffled bool
	perUser  int
	pay      time.Duration
	room     int // for how many people, and how many holds

	closed bool
	paused bool
	stock  int64
	free   int64
	paid   int64 // as far as it was told
	rank   int64 // the highest that was given

	people  map[string]*person
	line    line
	tokens  tokens
	holds   map[string]*hold // by ID, those that were returned too
	tickets map[string]*hold
	keys    map[userKey]*hold
	stream  *stream
}

type userKey struct{ user, key string }

// A person is a user with a ticket or with units.
type person struct {
	user   string
	ticket string
	batch  string
	rank   int64
	until  int64
	group  *group
	last   *hold
	held   []*hold // in the order of slots
	got    int     // with those that were returned
	place  place
}

type place uint8

const (
	nowhere place = iota
	waiting
	admitted // or passed, when its time is over
	spent
)

// A hold is a reservation.
type hold struct {
	sale.Reservation
	returned bool
	flight   *flight // on its way to the journal; nil when it is there
}

func micros(t time.Time) int64 { return t.UnixMilli() * 1000 }

func when(micros int64) time.Time { return time.UnixMilli(micros / 1000).UTC() }

// newState builds the state of an InitialState that was checked.
func newState(o *sale.InitialState, room int, st *stream) *state {
	s := &state{
		id: o.Sale.ID, epoch: o.Sale.Epoch,
		starts: micros(o.Sale.StartsAt), ends: micros(o.Sale.EndsAt), lobby: o.Sale.Lobby.Milliseconds() * 1000,
		shuffled: o.Sale.Queue == sale.Shuffled, perUser: o.Sale.PerUser, pay: o.Sale.PayWithin, room: room,
		paused: o.Sale.State == sale.Paused, stock: o.Sale.Stock, free: o.Sale.Stock, paid: o.Sale.Paid,
		people: make(map[string]*person), holds: make(map[string]*hold), tickets: make(map[string]*hold),
		keys: make(map[userKey]*hold), stream: st,
	}
	for _, rs := range [][]sale.Reservation{o.Reserved, o.Pending} {
		for _, r := range rs {
			s.hold(s.person(r.User), &hold{Reservation: r})
		}
	}
	return s
}

func (s *state) person(user string) *person {
	p := s.people[user]
	if p == nil {
		p = &person{user: user}
		s.people[user] = p
	}
	return p
}

// hold takes a free unit for p.
func (s *state) hold(p *person, h *hold) {
	s.free--
	s.holds[h.ID] = h
	s.tickets[h.Ticket] = h
	if h.Key != "" {
		s.keys[userKey{h.User, h.Key}] = h
	}
	at, _ := slices.BinarySearchFunc(p.held, h.Slot, func(h *hold, slot int) int { return h.Slot - slot })
	p.held = slices.Insert(p.held, at, h)
	p.got++
}

func (s *state) over(p *person, now int64) bool { return p.place == admitted && now >= p.until }

// standing tells where p stands; p may be nil.
func (s *state) standing(p *person, now int64) sale.TicketStatus {
	st := sale.TicketStatus{State: sale.NoTicket}
	if p == nil {
		return st
	}
	for _, h := range p.held {
		st.Reserved = append(st.Reserved, h.Reservation)
	}
	if p.place == nowhere {
		return st
	}
	st.Ticket, st.Rank = p.ticket, p.rank
	switch {
	case p.place == waiting:
		st.State, st.Ahead = sale.Waiting, s.line.ahead(p.rank)
	case p.place == spent:
		last := p.last.Reservation
		st.State, st.Last = sale.Spent, &last
	case s.over(p, now):
		st.State = sale.TicketExpired
	default:
		st.State, st.Batch, st.Until = sale.Admitted, p.batch, when(p.until)
	}
	return st
}

func (s *state) join(j *sale.JoinRequest, now int64) sale.TicketStatus {
	p := s.people[j.User]
	if p != nil && p.place != nowhere &&
		(p.place == waiting || p.place == admitted && !s.over(p, now) || p.ticket == j.Ticket) {
		return s.standing(p, now)
	}
	if why := s.joinRefused(p, j, now); why != sale.OK {
		st := s.standing(p, now)
		st.Reason = why
		return st
	}
	p = s.person(j.User)
	first := p.place == nowhere
	p.ticket, p.rank, p.batch, p.until, p.group, p.last = j.Ticket, s.nextRank(j, first, now), j.Batch, 0, nil, nil
	s.rank = max(s.rank, p.rank)
	if j.Batch != "" {
		s.admitOne(p, j.Batch, micros(j.Until), now)
	} else {
		p.place = waiting
		s.line.add(p)
	}
	return s.standing(p, now)
}

func (s *state) joinRefused(p *person, j *sale.JoinRequest, now int64) sale.Reason {
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
	case p != nil && s.hasEnough(p):
		return sale.PerUserLimit
	case j.Batch == "" && j.Max > 0 && int64(s.line.n) >= j.Max, p == nil && len(s.people) >= s.room, len(s.holds) >= s.room:
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
	for s.line.has(rank) {
		rank++
	}
	return rank
}

func (s *state) admitOne(p *person, batch string, until, now int64) {
	p.place, p.batch, p.until = admitted, batch, until
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
		p := s.line.pop()
		if p == nil {
			return i
		}
		s.admitOne(p, batch, until, now)
	}
	return n
}

// reserve returns also what was reserved before or now; nil if it was refused.
func (s *state) reserve(a *sale.ReserveRequest, now int64) (sale.ReserveResult, *hold) {
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
	p := s.people[a.User]
	if why := s.reserveRefused(p, a, now); why != sale.OK {
		return sale.ReserveResult{Reason: why}, nil
	}
	slot := 1
	for _, h := range p.held {
		if h.Slot == slot {
			slot++
		}
	}
	at := when(now)
	h = &hold{Reservation: sale.Reservation{
		ID: a.Reservation, Sale: s.id, Epoch: s.epoch, User: p.user, Slot: slot,
		Ticket: p.ticket, Key: a.Key, At: at, PayBy: at.Add(s.pay),
	}}
	s.hold(p, h)
	s.tokens.expire(now)
	s.tokens.use(p.group)
	p.place, p.last, p.group = spent, h, nil
	return sale.ReserveResult{Reservation: h.Reservation}, h
}

func (s *state) reserveRefused(p *person, a *sale.ReserveRequest, now int64) sale.Reason {
	switch {
	case now >= s.ends:
		return sale.HasEnded
	case s.paused:
		return sale.IsPaused
	case now < s.starts:
		return sale.NotStarted
	case p == nil || p.place != admitted || p.ticket != a.Ticket:
		return sale.NotAdmitted
	case s.over(p, now):
		return sale.AdmissionExpired
	case s.hasEnough(p):
		return sale.PerUserLimit
	case s.free <= 0:
		return sale.IsAllTaken
	}
	return sale.OK
}

func (s *state) hasEnough(p *person) bool {
	return len(p.held) >= s.perUser || p.got >= sale.MaxReservations
}

// giveBack returns a unit, and the reservation if there is one of this user.
func (s *state) giveBack(user, id string) (bool, *hold) {
	h := s.holds[id]
	if h == nil || h.User != user {
		return false, nil
	}
	if h.returned {
		return false, h
	}
	h.returned = true
	s.free++
	p := s.people[user]
	p.held = slices.DeleteFunc(p.held, func(o *hold) bool { return o == h })
	return true, h
}

func (s *state) setStock(stock int64) error {
	if stock < s.stock {
		return fmt.Errorf("meminventory: stock of %s is %d, want %d or more: %w", s.id, stock, s.stock, sale.ErrInvalid)
	}
	s.free += stock - s.stock
	s.stock = stock
	return nil
}

func (s *state) count(now int64) sale.Counts {
	s.tokens.expire(now)
	return sale.Counts{
		Now: when(now), Stock: s.stock, Free: s.free, Waiting: int64(s.line.n), Outstanding: s.tokens.n,
		Reserved: s.stock - s.free, Paid: s.paid, Backlog: int64(len(s.stream.entries)), Paused: s.paused,
	}
}
