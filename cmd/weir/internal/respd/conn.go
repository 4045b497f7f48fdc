package respd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"hash/maphash"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/redcon"
)

// Timeouts of a connection.
const (
	handshakeTimeout = 10 * time.Second // of TLS
	commandTimeout   = 30 * time.Second // from the first byte of a command to its last
	writeTimeout     = 10 * time.Second // for a client to read the replies
	writeSlack       = time.Second      // by which that may end later, so that it does not change with every write
)

const (
	// flushAt is the size of collected replies, in bytes, at which they are written.
	flushAt = 32 << 10
	// maxBatch is the maximum number of pipelined CL.THROTTLE commands that are decided
	// together.
	maxBatch = 256
	// maxShared is the maximum size of a string that several keys share, in bytes. A store that
	// keeps one of them keeps that string.
	maxShared = 256
	// maxParallel is the maximum number of them that are decided at the same time.
	maxParallel = 32
	// remoteLatency is the latency above which a store counts as remote.
	remoteLatency = 100 * time.Microsecond
)

// A conn is one connection. Only its own goroutine uses it, except for nc.
type conn struct {
	s  *Server
	nc net.Conn
	in *framer

	id            int64
	name          string
	authenticated bool
	closing       bool // close after the replies in out

	calls         []throttleCall // not decided yet
	keys          []byte         // of calls[named:], one behind the other
	named         int            // calls with their keys
	storeIsRemote bool           // decisions are made in parallel
	out           encoder        // replies that are not written yet
	err           error          // of writing
	commandStart  time.Time      // of the incomplete command

	readBy     time.Time     // the deadline that is set
	writeBy    time.Time     // the deadline that is set
	drainUntil time.Time     // end of reading while the server shuts down
	quiet      time.Duration // see maxQuiet
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, id: s.ids.Add(1), out: encoder{proto: 2}, authenticated: s.config.Password == ""}
	if s.tls != nil {
		c.nc = tls.Server(nc, s.tls)
	}
	c.in = newFramer(c.nc, &s.extra)
	c.in.authenticated = c.authenticated
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
	for !c.closing {
		frame, args, err := c.in.next()
		switch {
		case err != nil:
			c.abort(err)
		case frame != nil:
			c.command(frame, args)
		default:
			c.decide()
			c.flush()
			if c.err != nil {
				return
			}
			if err := c.read(); err != nil {
				if errors.Is(err, errBuffersFull) {
					c.abort(err)
				}
				c.closing = true
			}
		}
		if len(c.out.buf) >= flushAt {
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

// abort replies with an error and closes the connection.
func (c *conn) abort(err error) {
	c.decide()
	c.out.fail(err.Error())
	c.closing = true
}

// read reads more of a command, until the client's deadline.
func (c *conn) read() error {
	now := c.s.now()
	var until time.Time
	switch {
	case !c.in.pending():
		c.commandStart = time.Time{}
		if c.s.config.IdleTimeout > 0 {
			until = now.Add(c.s.config.IdleTimeout)
		}
	case c.commandStart.IsZero():
		c.commandStart = now
		fallthrough
	default:
		until = c.commandStart.Add(commandTimeout)
	}
	// An earlier deadline stays: a deadline that changed with every command would cost more.
	set := until.Before(c.readBy) || until.IsZero() != c.readBy.IsZero()
	for {
		if set {
			if err := c.nc.SetReadDeadline(until); err != nil {
				return err
			}
			c.readBy = until
		}
		if c.s.draining.Load() {
			return c.drain()
		}
		err := c.in.fill()
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case c.s.draining.Load():
			return c.drain() // Shutdown interrupted the read
		case !c.s.now().Before(until):
			return err
		}
		set = true
	}
}

// flush writes the collected replies.
func (c *conn) flush() {
	if len(c.out.buf) == 0 || c.err != nil {
		return
	}
	if by := c.s.now().Add(writeTimeout); c.writeBy.Before(by) {
		c.writeBy = by.Add(writeSlack)
		c.err = c.nc.SetWriteDeadline(c.writeBy)
	}
	if c.err == nil {
		_, c.err = c.nc.Write(c.out.buf)
	}
	if c.out.buf = c.out.buf[:0]; cap(c.out.buf) > 2*flushAt {
		c.out.buf = nil
	}
}

// command answers one command, or adds it to the batch. args is empty for an inline command.
func (c *conn) command(frame []byte, args [][]byte) {
	if len(args) == 0 {
		cmd, err := redcon.Parse(frame)
		if err != nil || len(cmd.Args) == 0 {
			text := "invalid request"
			if err != nil {
				_, text, _ = strings.Cut(err.Error(), "Protocol error: ")
			}
			c.abort(protocolError(text))
			return
		}
		args = cmd.Args
	}
	c.s.processed.Add(1)
	c.commandStart = time.Time{} // the bytes that remain belong to the next command
	var lower [32]byte
	name := lowered(lower[:0], args[0])
	if c.authenticated && string(name) == throttle {
		c.calls = append(c.calls, throttleCall{})
		call := &c.calls[len(c.calls)-1]
		c.s.parseThrottle(call, args)
		if call.key > 0 {
			if len(c.keys)+call.key > maxShared {
				c.nameKeys(len(c.calls) - 1)
			}
			c.keys = append(c.keys, args[1]...)
		}
		if len(c.calls) == maxBatch {
			c.decide()
		}
		return
	}
	c.decide()
	c.dispatch(name, args)
}

// nameKeys sets the keys of calls[:n] with one allocation.
func (c *conn) nameKeys(n int) {
	all := string(c.keys)
	for ; c.named < n; c.named++ {
		call := &c.calls[c.named]
		call.request.Key, all = all[:call.key], all[call.key:]
	}
	if c.keys = c.keys[:0]; cap(c.keys) > 2*maxShared {
		c.keys = nil
	}
}

// lowered returns name in lower case in b, or nil if it is longer than every command.
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

// dispatch answers a command other than CL.THROTTLE. It checks in the order in which
// Redis checks.
func (c *conn) dispatch(name []byte, args [][]byte) {
	cmd := c.s.commands[string(name)]
	switch {
	case string(name) == "post" || string(name) == "host:":
		// A browser sends this for a page that targets Redis. Redis closes the connection too.
		c.s.logOncePerSecond("HTTP request on the RESP interface: connection closed", errors.New(c.nc.RemoteAddr().String()))
		c.out.buf, c.closing = c.out.buf[:0], true
	case cmd == nil:
		c.out.fail(unknown(args))
	case cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		c.out.fail("ERR wrong number of arguments for '" + cmd.name + "' command")
	case !c.authenticated && !cmd.beforeAuth:
		c.out.fail("NOAUTH Authentication required.")
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

// decide answers the batch in order. Commands about one key are decided in their order.
// If the store is remote, commands about different keys are decided in parallel.
func (c *conn) decide() {
	if len(c.calls) == 0 {
		return
	}
	c.nameKeys(len(c.calls))
	i, now := 0, c.s.now()
	for ; i < len(c.calls) && (!c.storeIsRemote || len(c.calls) == 1); i++ {
		start := now // the clock is read once for each call
		now = c.s.decide(c.s.ctx, &c.calls[i], start)
		c.storeIsRemote = now.Sub(start) > remoteLatency
	}
	if i < len(c.calls) {
		c.decideParallel(c.calls[i:])
	}
	for i := range c.calls {
		c.out.buf = c.calls[i].reply(c.out.buf)
	}
	clear(c.calls)
	c.calls, c.named = c.calls[:0], 0
}

func (c *conn) decideParallel(asks []throttleCall) {
	var first, last [maxParallel]int // index in calls, plus one; 0: none
	for i := range asks {
		lane := maphash.String(c.s.limits.seed, asks[i].request.Key) % maxParallel
		if last[lane] == 0 {
			first[lane] = i + 1
		} else {
			asks[last[lane]-1].next = i + 1
		}
		last[lane] = i + 1
	}
	var all sync.WaitGroup
	var quick [maxParallel]bool
	for lane, i := range first {
		if i == 0 {
			continue
		}
		all.Go(func() {
			for now := c.s.now(); i != 0; i = asks[i-1].next {
				start := now
				now = c.s.decide(c.s.ctx, &asks[i-1], start)
				took := now.Sub(start)
				quick[lane] = took > 0 && took <= remoteLatency
			}
		})
	}
	all.Wait()
	c.storeIsRemote = !slices.Contains(quick[:], true)
}

func equal(b []byte, word string) bool { return bytes.EqualFold(b, []byte(word)) }
