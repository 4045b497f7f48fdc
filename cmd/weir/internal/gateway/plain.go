package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/plainhttp"
)

// A plainExchange forwards a request without a body, and its response with a Content-Length, as
// ReverseProxy would: with the same bytes, but without a Request and a Response between them. It
// is reused.
type plainExchange struct {
	forwarded []field
	text      []byte // of the request
	sorter    plainhttp.Sorter
	reply     plainhttp.Reply
}

// A sent is a connection whose request was sent, and whose response ReverseProxy reads.
type sent struct {
	c        *directConn
	stop     plainhttp.Hook // of the context of the request
	received bool           // ReverseProxy has taken over
}

// end closes a connection whose response was not read.
func (s *sent) end() {
	if s != nil && !s.received {
		s.stop.Stop()
		s.c.Conn.Close()
	}
}

type sentKey struct{}

// forwardPlain forwards r and its response. If it returns false, ReverseProxy does that within the
// time that is left, with the connection of s if that is not nil.
func (p *proxy) forwardPlain(w *deadlineWriter, r *http.Request) (done bool, s *sent, left time.Duration) {
	began := time.Now()
	if p.plain == nil || !sendsPlain(r) {
		return false, nil, p.route.Timeout
	}
	x, ok := p.exchanges.Get().(*plainExchange)
	if !ok {
		x = new(plainExchange)
	}
	defer p.exchanges.Put(x)
	if !p.appendRequest(x, r) {
		return false, nil, p.route.Timeout
	}
	c, stop, err := p.sendPlain(x, r, began)
	switch {
	case err != nil:
		p.respondFailed(w, r, nil, err)
		return true, nil, 0
	case x.reply.Status == 0:
		c.setDeadline(time.Time{}, 0)
		return false, &sent{c: c, stop: stop}, max(1, p.route.Timeout-time.Since(began))
	}
	p.respondPlain(w, r, x, c, stop)
	return true, nil, 0
}

// sendsPlain reports whether r may be sent without ReverseProxy: it has no body and no field about
// the connection but a usual Connection.
func sendsPlain(r *http.Request) bool {
	switch c := r.Header["Connection"]; {
	case r.ProtoMajor != 1 || !isRepeatable(r) || r.Header["Te"] != nil:
		return false
	case len(c) > 1 || len(c) == 1 && !strings.EqualFold(c[0], "keep-alive") && !strings.EqualFold(c[0], "close"):
		return false
	}
	u := r.URL
	return u.Host == "" && u.Opaque == "" && u.User == nil && strings.HasPrefix(u.Path, "/") && isPlainQuery(u.RawQuery)
}

// isPlainQuery reports whether ReverseProxy forwards a query as it is.
func isPlainQuery(query string) bool {
	const maxParameters = 1000
	if len(query) > maxParameters && strings.Count(query, "&") >= maxParameters {
		return false
	}
	for i := 0; i < len(query); i++ {
		switch c := query[i]; {
		case c <= ' ' || c > '~' || c == ';':
			return false
		case c == '%':
			if i+2 >= len(query) || !isHex(query[i+1]) || !isHex(query[i+2]) {
				return false
			}
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// appendRequest sets the text of the request to the upstream.
func (p *proxy) appendRequest(x *plainExchange, r *http.Request) bool {
	host := p.target.Host
	if p.route.PassHost {
		host = r.Host
	}
	if !plainhttp.IsHost(host) {
		return false
	}
	fields, keepRealIP := p.gateway.forwarded(r, x.forwarded[:0])
	for _, f := range fields {
		x.sorter.Add(f.name, f.values)
	}
	clear(fields)
	x.forwarded = fields
	agent := ""
	for name, values := range r.Header {
		switch {
		case name == "User-Agent":
			agent = textproto.TrimString(r.Header.Get(name))
		case name == "X-Real-Ip" && !keepRealIP, name == requestIDHeader && p.gateway.ids, isUnderscoreSpelling(name), isNotForwarded(name):
		default:
			x.sorter.Add(name, values)
		}
	}
	b := append(append(x.text[:0], r.Method...), ' ')
	b = append(append(b, p.prefix...), r.URL.EscapedPath()...)
	if r.URL.ForceQuery || r.URL.RawQuery != "" {
		b = append(append(b, '?'), r.URL.RawQuery...)
	}
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	if agent != "" {
		b = append(append(append(b, "User-Agent: "...), agent...), "\r\n"...)
	}
	x.text = append(x.sorter.Append(b), "\r\n"...)
	return true
}

// isNotForwarded reports whether a field is about the connection, or replaced in every request.
func isNotForwarded(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Trailer", "Transfer-Encoding",
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Content-Length", "Host":
		return true
	}
	return false
}

// sendPlain sends the request and reads the head of the response. Its status is 0 if ReverseProxy
// has to read it.
func (p *proxy) sendPlain(x *plainExchange, r *http.Request, began time.Time) (c *directConn, stop plainhttp.Hook, err error) {
	ctx := r.Context()
	for {
		if c = p.plain.take(began.Add(p.route.Timeout)); c == nil {
			dialing, cancel := context.WithTimeoutCause(ctx, time.Until(began.Add(p.route.Timeout)), errTimeout)
			c, err = p.plain.dial(dialing)
			if err != nil && context.Cause(dialing) == errTimeout {
				err = errTimeout
			}
			cancel()
			if err != nil {
				return nil, stop, err
			}
			c.setDeadline(began.Add(p.route.Timeout), 0)
		}
		stop = plainhttp.AfterFunc(ctx, c.end)
		c.left, c.got = maxResponseHeader, false
		if c.reused {
			c.ask = x.text
		} else {
			_, err = c.socket.Write(x.text)
		}
		if err == nil {
			err = c.readReply(r.Method, &x.reply)
		}
		if err == nil {
			if x.reply.Status != 0 {
				c.left = -1
			}
			return c, stop, nil
		}
		stop.Stop()
		c.Conn.Close()
		switch {
		case ctx.Err() != nil:
			return nil, stop, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, stop, errTimeout
		case !c.reused || c.got:
			return nil, stop, err
		}
	}
}

// readReply reads the head of a response, but leaves one to ReverseProxy, with status 0.
func (c *directConn) readReply(method string, reply *plainhttp.Reply) error {
	for {
		reply.Status = 0
		if n := c.r.Buffered(); n > 0 {
			buf, _ := c.r.Peek(n)
			switch v := reply.Parse(method, buf); {
			case v == plainhttp.Plain:
				c.r.Discard(reply.Size)
				return nil
			case v == plainhttp.Other || n == c.r.Size():
				reply.Status = 0
				return nil
			}
		}
		if _, err := c.r.Peek(c.r.Buffered() + 1); err != nil {
			return err
		}
	}
}

// respondPlain sends the response to the client. Fields that were set before replace those of the
// upstream with the same name, as in beginResponse.
func (p *proxy) respondPlain(w *deadlineWriter, r *http.Request, x *plainExchange, c *directConn, stop plainhttp.Hook) {
	h, fields := w.Header(), x.reply.Fields
	n := 0
	for _, f := range fields {
		if _, set := h[f.Name]; !set {
			fields[n] = f
			n++
		}
	}
	plainhttp.Begin(w.ResponseWriter, x.reply.Status, fields[:n])
	err := p.copyBody(w, c, x.reply.Length)
	if !stop.Stop() || err != nil || x.reply.Close || c.r.Buffered() > 0 {
		c.Conn.Close()
	} else {
		p.plain.put(c)
	}
	if err == nil && plainhttp.Holds(w) {
		return // it is sent after the end of the request, so that a client that has it finds its slot free
	}
	flushErr := w.FlushError() // the server would write the rest without a deadline
	if err == nil && flushErr == nil {
		return
	}
	if _, served := r.Context().Value(http.ServerContextKey).(*http.Server); served && err != nil {
		panic(http.ErrAbortHandler) // as ReverseProxy does: the response is incomplete
	}
}

// copyBody copies n bytes to the client. It flushes what has waited for more for flushInterval, as
// ReverseProxy does.
func (p *proxy) copyBody(w *deadlineWriter, c *directConn, n int) error {
	buf, _ := c.r.Peek(min(n, c.r.Buffered()))
	w.keepDeadline()
	m, err := w.ResponseWriter.Write(buf)
	c.r.Discard(m)
	if n -= m; n == 0 || err != nil {
		return err
	}
	piece := p.reverse.BufferPool.Get()
	defer p.reverse.BufferPool.Put(piece)
	due := time.Now().Add(flushInterval) // of a flush; zero if nothing waits
	for n > 0 {
		c.setDeadline(due, 0) // a response that has begun has no other limit
		m, err := c.r.Read(piece[:min(n, len(piece))])
		n -= m
		if m > 0 {
			if _, err := w.Write(piece[:m]); err != nil {
				return err
			}
			if due.IsZero() {
				due = time.Now().Add(flushInterval)
			}
		}
		switch {
		case err == nil || n == 0:
		case !due.IsZero() && errors.Is(err, os.ErrDeadlineExceeded) && !c.interrupted.Load():
			due = time.Time{}
			if err := w.FlushError(); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
