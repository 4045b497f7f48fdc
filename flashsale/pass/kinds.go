package pass

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Times are stored in whole milliseconds, rounded down, and returned in UTC. For a value with a
// text above MaxField, every method that signs returns an empty string, which no method opens.

// Session identifies a user until Expires. Proof names how the identity was proven; it is empty
// for a guest and a merchant.
type Session struct {
	User    string
	Expires time.Time
	Proof   string
}

// Session signs a buyer's session.
func (k *Keys) Session(s Session) string { return k.sealSession(session, s) }

// OpenSession opens a buyer's session that is valid at now.
func (k *Keys) OpenSession(text string, now time.Time) (Session, error) {
	return k.openSession(session, text, now)
}

// Office signs a merchant's session. It is not valid as a buyer's session.
func (k *Keys) Office(s Session) string { return k.sealSession(office, s) }

// OpenOffice opens a merchant's session that is valid at now.
func (k *Keys) OpenOffice(text string, now time.Time) (Session, error) {
	return k.openSession(office, text, now)
}

func (k *Keys) sealSession(kd kind, s Session) string {
	w := write().text(s.User).at(s.Expires)
	if s.Proof != "" {
		w = w.text(s.Proof)
	}
	return k.seal(kd, w.b, w.fits())
}

func (k *Keys) openSession(kd kind, text string, now time.Time) (Session, error) {
	f, err := k.open(kd, text)
	if err != nil {
		return Session{}, err
	}
	s := Session{User: f.text(), Expires: f.at()}
	if len(f) > 0 {
		if s.Proof = f.text(); s.Proof == "" {
			return Session{}, ErrBad
		}
	}
	if !f.done() || s.User == "" {
		return Session{}, ErrBad
	}
	if !now.Before(s.Expires) {
		return Session{}, ErrExpired
	}
	return s, nil
}

// Login is a login at an OpenID provider in progress.
type Login struct {
	State, Nonce, Verifier, Return string
	Expires                        time.Time
}

// Login signs a login.
func (k *Keys) Login(l Login) string {
	w := write().text(l.State, l.Nonce, l.Verifier, l.Return).at(l.Expires)
	return k.seal(login, w.b, w.fits())
}

// OpenLogin opens a login that is valid at now.
func (k *Keys) OpenLogin(text string, now time.Time) (Login, error) {
	f, err := k.open(login, text)
	if err != nil {
		return Login{}, err
	}
	l := Login{State: f.text(), Nonce: f.text(), Verifier: f.text(), Return: f.text(), Expires: f.at()}
	if !f.done() {
		return Login{}, ErrBad
	}
	if !now.Before(l.Expires) {
		return Login{}, ErrExpired
	}
	return l, nil
}

// Ticket is a user's ticket with its position in the queue of a sale.
type Ticket struct {
	Sale   string
	Epoch  int64
	User   string
	Ticket string
	Rank   int64
}

// Ticket signs a ticket.
func (k *Keys) Ticket(t Ticket) string {
	w := write().text(t.Sale).num(t.Epoch).text(t.User, t.Ticket).num(t.Rank)
	return k.seal(ticket, w.b, w.fits())
}

// OpenTicket opens a ticket.
func (k *Keys) OpenTicket(text string) (Ticket, error) {
	f, err := k.open(ticket, text)
	if err != nil {
		return Ticket{}, err
	}
	t := Ticket{Sale: f.text(), Epoch: f.num(), User: f.text(), Ticket: f.text(), Rank: f.num()}
	if !f.done() {
		return Ticket{}, ErrBad
	}
	return t, nil
}

// Token is an admission token: it admits a user to a sale with a ticket, until Until. The
// inventory decides by its clock whether it has expired.
type Token struct {
	Sale   string
	Epoch  int64
	User   string
	Ticket string
	Batch  string
	Until  time.Time
}

// Token signs an admission token.
func (k *Keys) Token(t Token) string {
	w := write().text(t.Sale).num(t.Epoch).text(t.User, t.Ticket, t.Batch).at(t.Until)
	return k.seal(token, w.b, w.fits())
}

// OpenToken opens an admission token.
func (k *Keys) OpenToken(text string) (Token, error) {
	f, err := k.open(token, text)
	if err != nil {
		return Token{}, err
	}
	t := Token{Sale: f.text(), Epoch: f.num(), User: f.text(), Ticket: f.text(), Batch: f.text(), Until: f.at()}
	if !f.done() {
		return Token{}, ErrBad
	}
	return t, nil
}

// Receipt signs a reservation without its Key. A quantity of 1 is not in it, as in receipts from
// before there were quantities.
func (k *Keys) Receipt(r sale.Reservation) string {
	w := write().text(r.ID, r.Sale).num(r.Epoch).text(r.User).num(int64(r.Slot)).text(r.Ticket).at(r.At, r.PayBy)
	if r.Units() > 1 {
		w = w.num(r.Units())
	}
	return k.seal(receipt, w.b, w.fits())
}

// OpenReceipt opens a receipt.
func (k *Keys) OpenReceipt(text string) (sale.Reservation, error) {
	f, err := k.open(receipt, text)
	if err != nil {
		return sale.Reservation{}, err
	}
	r := sale.Reservation{ID: f.text(), Sale: f.text(), Epoch: f.num(), User: f.text(), Slot: int(f.num()),
		Ticket: f.text(), At: f.at(), PayBy: f.at(), Quantity: 1}
	if len(f) > 0 {
		r.Quantity = int(f.num())
	}
	if !f.done() || r.Quantity < 1 {
		return sale.Reservation{}, ErrBad
	}
	return r, nil
}

// Proof shows that a user has done work for a sale, or has paid an order if Sale is empty.
type Proof struct {
	User    string
	Sale    string
	Expires time.Time
}

// Proof signs a proof.
func (k *Keys) Proof(p Proof) string {
	w := write().text(p.User, p.Sale).at(p.Expires)
	return k.seal(proof, w.b, w.fits())
}

// OpenProof opens a proof that is valid at now.
func (k *Keys) OpenProof(text string, now time.Time) (Proof, error) {
	f, err := k.open(proof, text)
	if err != nil {
		return Proof{}, err
	}
	p := Proof{User: f.text(), Sale: f.text(), Expires: f.at()}
	if !f.done() || p.User == "" {
		return Proof{}, ErrBad
	}
	if !now.Before(p.Expires) {
		return Proof{}, ErrExpired
	}
	return p, nil
}
