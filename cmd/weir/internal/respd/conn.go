package respd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/redcon"
)

// The times that a client has.
const (
	handshakeTimeout = 10 * time.Second // for TLS
	commandTimeout   = 30 * time.Second // from the first byte of a command to its last
	writeTimeout     = 10 * time.Second // to read replies
)

const (
	// flushAt is how many bytes of replies are collected at most, but for one reply.
	flushAt = 32 << 10
	// maxBatch is how many asks of a pipeline are decided together.
	maxBatch = 256
	// lanes is how many of them are decided at a time.
	lanes = 32
	// remote is how long a decision takes that was not made in this process.
	remote = 100 * time.Microsecond
)

// A conn is one connection. Its goroutine alone touches it, but for nc.
type conn struct {
	s  *Server
	nc net.Conn
	in *framer

	id     int64
	name   string
	proto  int // 2 or 3
	authed bool
	ending bool // after this reply

	asks   []ask // CL.THROTTLE read and not yet decided
	remote bool  // decisions take long, so they are made side by side
	out    []byte
	err    error     // of writing
	begun  time.Time // when the command that is pending began

	until time.Time     // to when commands are read while the server shuts down
	quiet time.Duration // see firstQuiet
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, id: s.ids.Add(1), proto: 2, authed: s.config.Password == ""}
	if s.tls != nil {
		c.nc = tls.Server(nc, s.tls)
	}
	c.in = newFramer(c.nc, &s.extra)
	c.in.trusts = c.authed
	return c
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	if t, ok := c.nc.(*tls.Conn); ok {
		t.SetDeadline(time.Now().Add(handshakeTimeout))
		if t.Handshake() != nil {
			return
		}
		t.SetDeadline(time.Time{})
		defer t.Close()
	}
	for !c.ending {
		frame, err := c.in.next()
		switch {
		case err != nil:
			c.end(err)
		case frame != nil:
			c.command(frame)
		default:
			c.decide()
			c.flush()
			if c.err != nil {
				return
			}
			if err := c.wait(); err != nil {
				if errors.Is(err, errTooMuch) {
					c.end(err)
				}
				c.ending = true
			}
		}
		if len(c.out) >= flushAt {
			c.flush()
		}
		if c.err != nil {
			return
		}
	}
	c.decide()
	c.flush()
	if c.err == nil && c.s.draining.Load() {
		c.linger()
	}
}

// end answers with an error and is the end.
func (c *conn) end(err error) {
	c.decide()
	c.out = redcon.AppendError(c.out, err.Error())
	c.ending = true
}

// wait reads more, for as long as the client may take.
func (c *conn) wait() error {
	now := time.Now()
	var until time.Time
	switch {
	case !c.in.pending():
		c.begun = time.Time{}
		if c.s.config.IdleTimeout > 0 {
			until = now.Add(c.s.config.IdleTimeout)
		}
	case c.begun.IsZero():
		c.begun = now
		fallthrough
	default:
		until = c.begun.Add(commandTimeout)
	}
	if err := c.nc.SetReadDeadline(until); err != nil {
		return err
	}
	if c.s.draining.Load() {
		return c.last()
	}
	err := c.in.fill()
	if errors.Is(err, os.ErrDeadlineExceeded) && c.s.draining.Load() {
		return c.last() // Shutdown woke us
	}
	return err
}

// flush writes the replies.
func (c *conn) flush() {
	if len(c.out) == 0 || c.err != nil {
		return
	}
	if c.err = c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); c.err == nil {
		_, c.err = c.nc.Write(c.out)
	}
	if c.out = c.out[:0]; cap(c.out) > 2*flushAt {
		c.out = nil
	}
}

// command answers one command, or puts it into the batch.
func (c *conn) command(frame []byte) {
	cmd, err := redcon.Parse(frame)
	if err != nil || len(cmd.Args) == 0 {
		text := "invalid request"
		if err != nil {
			_, text, _ = strings.Cut(err.Error(), "Protocol error: ")
		}
		c.end(protocolError(text))
		return
	}
	c.s.processed.Add(1)
	c.begun = time.Time{} // what is pending is another one
	var lower [32]byte
	name := lowered(lower[:0], cmd.Args[0])
	if c.authed && string(name) == throttle {
		c.asks = append(c.asks, c.s.ask(cmd.Args))
		if len(c.asks) == maxBatch {
			c.decide()
		}
		return
	}
	c.decide()
	c.dispatch(name, cmd.Args)
}

// lowered is a name in lower case, or nil for one that is too long to be known.
func lowered(b, name []byte) []byte {
	if len(name) > cap(b) {
		return nil
	}
	for _, ch := range name {
		if ch >= 'A' && ch <= 'Z' {
			ch += 'a' - 'A'
		}
		b = append(b, ch)
	}
	return b
}

// dispatch answers a command that is no ask, in the order of refusals that Redis has.
func (c *conn) dispatch(name []byte, args [][]byte) {
	cmd := c.s.commands[string(name)]
	switch {
	case string(name) == "post" || string(name) == "host:":
		// A browser was made to send this. Redis does the same.
		c.s.logEvery("a client speaks HTTP to the RESP door: it was cut off", errors.New(c.nc.RemoteAddr().String()))
		c.out, c.ending = c.out[:0], true
	case cmd == nil:
		c.fail(unknown(args))
	case cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		c.fail("ERR wrong number of arguments for '" + cmd.name + "' command")
	case !c.authed && !cmd.before:
		c.fail("NOAUTH Authentication required.")
	default:
		cmd.run(c, args)
	}
}

func unknown(args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '" + shown(args[0]) + "', with args beginning with: ")
	from := b.Len()
	for _, a := range args[1:] {
		if b.Len()-from >= maxShown {
			break
		}
		b.WriteString("'" + shown(a[:min(len(a), maxShown-(b.Len()-from))]) + "' ")
	}
	return b.String()
}

// decide answers the asks of the batch, in their order. Those of one key are decided
// in their order, and if the store is not in this process, those of different keys
// side by side.
func (c *conn) decide() {
	if len(c.asks) == 0 {
		return
	}
	i := 0
	for ; i < len(c.asks) && (!c.remote || len(c.asks) == 1); i++ {
		c.remote = c.s.decide(c.s.ctx, &c.asks[i]) > remote
	}
	if i < len(c.asks) {
		c.decideBeside(c.asks[i:])
	}
	for i := range c.asks {
		c.out = c.asks[i].reply(c.out)
	}
	clear(c.asks)
	c.asks = c.asks[:0]
}

func (c *conn) decideBeside(asks []ask) {
	var first, last [lanes]int // one more than their index
	for i := range asks {
		lane := asks[i].hash % lanes
		if last[lane] == 0 {
			first[lane] = i + 1
		} else {
			asks[last[lane]-1].next = i + 1
		}
		last[lane] = i + 1
	}
	var all sync.WaitGroup
	var quick [lanes]bool
	for lane, i := range first {
		if i == 0 {
			continue
		}
		all.Go(func() {
			for ; i != 0; i = asks[i-1].next {
				took := c.s.decide(c.s.ctx, &asks[i-1])
				quick[lane] = took > 0 && took <= remote
			}
		})
	}
	all.Wait()
	c.remote = !slices.Contains(quick[:], true)
}

// fail answers with an error.
func (c *conn) fail(text string) { c.out = redcon.AppendError(c.out, text) }

// The replies below differ between RESP2 and RESP3.

func (c *conn) ok()             { c.out = redcon.AppendString(c.out, "OK") }
func (c *conn) bulk(s string)   { c.out = redcon.AppendBulkString(c.out, s) }
func (c *conn) number(n int64)  { c.out = redcon.AppendInt(c.out, n) }
func (c *conn) array(n int)     { c.out = redcon.AppendArray(c.out, n) }
func (c *conn) simple(s string) { c.out = redcon.AppendString(c.out, s) }

// pairs begins a map of n pairs.
func (c *conn) pairs(n int) {
	at := len(c.out)
	if c.proto == 2 {
		n *= 2
	}
	if c.out = redcon.AppendArray(c.out, n); c.proto == 3 {
		c.out[at] = '%'
	}
}

// set begins a set.
func (c *conn) set(n int) {
	at := len(c.out)
	if c.out = redcon.AppendArray(c.out, n); c.proto == 3 {
		c.out[at] = '~'
	}
}

func (c *conn) null() {
	if c.proto == 3 {
		c.out = append(c.out, "_\r\n"...)
		return
	}
	c.out = redcon.AppendNull(c.out)
}

// text is a bulk string that is meant to be shown as it is.
func (c *conn) text(s string) {
	if c.proto == 2 {
		c.bulk(s)
		return
	}
	at := len(c.out)
	c.out = redcon.AppendBulkString(c.out, "txt:"+s)
	c.out[at] = '='
}

func equal(b []byte, word string) bool { return bytes.EqualFold(b, []byte(word)) }
