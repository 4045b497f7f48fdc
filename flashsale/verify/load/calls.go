package load

import (
	"bufio"
	"cmp"
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// A call is a kind of request.
type call uint8

const (
	session call = iota
	join
	pollQueue
	buy
	look
	pay
	cancel
	calls
)

func (c call) String() string {
	return [calls]string{"session", "join", "poll", "buy", "look", "pay", "cancel"}[c]
}

// A wire is a connection that carries one request at a time. An error closes it, and the next
// request opens another.
type wire struct {
	addr string
	host string // the end of the request's header, from Host on

	conn net.Conn
	live atomic.Pointer[net.Conn] // conn, for cut
	in   *bufio.Reader
	out  []byte
	res  fasthttp.Response

	sent, received int64
}

// responseTimeout is the maximum duration of a request.
const responseTimeout = 30 * time.Second

// maxBody is the maximum size of a response body.
const maxBody = 1 << 20

// ask sends what render appends and returns the time of sending. The response is in w.res.
func (w *wire) ask(ctx context.Context, render func(b []byte) []byte) (sent time.Time, err error) {
	if w.conn == nil {
		var d net.Dialer
		dial, cancel := context.WithTimeout(ctx, responseTimeout)
		w.conn, err = d.DialContext(dial, "tcp", w.addr)
		cancel()
		if err != nil {
			w.conn = nil
			return time.Now(), err
		}
		conn := w.conn // a copy: w.conn changes
		w.live.Store(&conn)
		if w.in == nil {
			w.in = bufio.NewReaderSize(counting{w}, 8<<10)
		}
		w.in.Reset(counting{w})
	}
	w.out = render(w.out[:0])
	sent = time.Now()
	w.conn.SetDeadline(sent.Add(responseTimeout))
	if ctx.Err() != nil { // cut may have run before the deadline was set
		return sent, ctx.Err()
	}
	n, err := w.conn.Write(w.out)
	w.sent += int64(n)
	if err == nil {
		err = w.res.ReadLimitBody(w.in, maxBody)
	}
	if err != nil || w.res.ConnectionClose() {
		w.close()
	}
	return sent, err
}

// counting reads from a wire's connection and counts bytes.
type counting struct{ *wire }

func (c counting) Read(b []byte) (int, error) {
	n, err := c.conn.Read(b)
	c.received += int64(n)
	return n, err
}

// cut makes the current request fail. Another goroutine may call it.
func (w *wire) cut() {
	if c := w.live.Load(); c != nil {
		(*c).SetDeadline(time.Unix(1, 0))
	}
}

func (w *wire) close() {
	if w.conn != nil {
		w.conn.Close()
		w.live.Store(nil)
		w.conn = nil
	}
}

// render appends a request of a user.
func (w *worker) render(b []byte, c call, u *user, token, key []byte) []byte {
	sale := w.clients.Sale
	switch c {
	case session:
		b = append(b, "POST /api/session"...)
	case join, pollQueue:
		b = append(append(append(b, method(c == join)...), "/api/sales/"...), sale...)
		b = append(b, "/ticket"...)
	case buy:
		b = append(append(append(b, "POST /api/sales/"...), sale...), "/orders"...)
	case look, pay, cancel:
		b = append(append(append(b, method(c != look)...), "/api/orders/"...), u.receipt...)
		if c != look {
			b = append(append(b, '/'), c.String()...)
		}
	}
	b = append(append(b, " HTTP/1.1\r\nHost: "...), w.host...)
	if len(u.cookie) > 0 {
		b = append(append(b, "\r\nCookie: fs_session="...), u.cookie...)
	}
	if w.clients.Addresses > 0 {
		b = append(b, "\r\nX-Forwarded-For: "...)
		if w.clients.Claim {
			b = append(b, "203.0.113.9, "...)
		}
		b = address(b, u.id%w.clients.Addresses)
	}
	if w.clients.Profile == Mixed {
		// False identity headers, which the server must not trust.
		b = append(b, "\r\nX-User-Id: admin\r\nX-User-Role: admin"...)
	}
	if len(u.work) > 0 && (c == join || c == pollQueue || c == buy) {
		// It also proves the session, where many users share an address.
		b = append(append(b, "\r\nFlashsale-Work: "...), u.work...)
	}
	if c == pollQueue && len(u.place) > 0 {
		b = append(append(b, "\r\nFlashsale-Place: "...), u.place...)
	}
	if c == pollQueue || c == look {
		return append(b, "\r\n\r\n"...)
	}
	b = append(b, "\r\nFlashsale-Request: 1\r\nContent-Type: application/json\r\nContent-Length: "...)
	switch {
	case c == join && len(u.place)+len(u.work) > 0:
		// A user with a queue position has already solved the work.
		name, value := "place", u.place
		if len(value) == 0 {
			name, value = "work", u.work
		}
		b = strconv.AppendInt(b, int64(len(name)+len(value)+len(`{"":""}`)), 10)
		b = append(append(append(b, "\r\n\r\n{\""...), name...), "\":\""...)
		b = append(append(b, value...), `"}`...)
		return b
	case c == join && w.clients.Click:
		end := w.quantity(u)
		b = strconv.AppendInt(b, int64(len(`{"buy":true`)+len(end)), 10)
		return append(append(withKey(b, key), "\r\n\r\n{\"buy\":true"...), end...)
	case c != buy:
		return append(b, "2\r\n\r\n{}"...)
	}
	end := w.quantity(u)
	b = strconv.AppendInt(b, int64(len(token)+len(`{"token":""`)+len(end)), 10)
	b = append(append(withKey(b, key), "\r\n\r\n{\"token\":\""...), token...)
	return append(append(b, '"'), end...)
}

// withKey appends an Idempotency-Key that is not empty.
func withKey(b, key []byte) []byte {
	if len(key) == 0 {
		return b
	}
	return append(append(b, "\r\nIdempotency-Key: "...), key...)
}

// units returns the number of units that a user wants.
func (w *worker) units(u *user) int { return cmp.Or(u.left, w.clients.Quantity) }

// quantity returns the end of a body with the units that a user wants.
func (w *worker) quantity(u *user) string {
	if n := w.units(u); n > 1 {
		return `,"quantity":` + strconv.Itoa(n) + "}"
	}
	return "}"
}

func method(post bool) string {
	if post {
		return "POST "
	}
	return "GET "
}

// address appends an address of 10.0.0.0/8.
func address(b []byte, n int) []byte {
	b = append(b, "10."...)
	b = append(strconv.AppendInt(b, int64(n>>16&255), 10), '.')
	b = append(strconv.AppendInt(b, int64(n>>8&255), 10), '.')
	return strconv.AppendInt(b, int64(n&255), 10)
}
