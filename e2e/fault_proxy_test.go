package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/porttest"
)

// A faultProxy is a proxy in front of a Redis that injects faults. It passes on one command at a
// time, and one reply.
type faultProxy struct {
	addr  string
	real  string
	ended chan struct{} // closed when the test ends

	mu       sync.Mutex
	mode     proxyMode
	changed  chan struct{} // closed when the mode changes
	listener net.Listener  // nil while it refuses
	conns    map[*proxyConn]bool
	dials    int
	wg       sync.WaitGroup
}

// A proxyMode selects the fault.
type proxyMode struct {
	name  string
	reply string // in place of the server's, except during the handshake
}

var (
	proxyPass   = proxyMode{name: "pass"}
	proxyRefuse = proxyMode{name: "refuse"} // connections are closed, and none accepted
	proxyMute   = proxyMode{name: "mute"}   // connections are accepted, and no reply is sent
	proxySlow   = proxyMode{name: "slow"}   // every reply takes slowDelay
	proxyFar    = proxyMode{name: "far"}    // every reply takes farDelay
	proxyReset  = proxyMode{name: "reset"}  // a reply is cut off
	proxyDead   = proxyMode{name: "dead"}   // open connections never receive another reply; new ones are refused
)

// A decision takes 50 ms at most: a reply that is slow comes too late, and one from
// afar in time, but not if it has to be connected to first. The delays of a busy machine do not
// count against the store, so a slow reply takes much longer.
const (
	slowDelay = 20 * time.Second
	farDelay  = 35 * time.Millisecond
)

// A proxyConn is one client connection.
type proxyConn struct {
	net.Conn
	server net.Conn
	dead   bool // guarded by the proxy's mu
}

func startFaultProxy(t testing.TB, server string) *faultProxy {
	t.Helper()
	g := &faultProxy{real: server, mode: proxyPass, changed: make(chan struct{}), ended: make(chan struct{}), conns: map[*proxyConn]bool{}}
	l, err := porttest.Listen(porttest.Address(t)) // no outgoing connection gets this port
	if err != nil {
		t.Fatal(err)
	}
	g.addr = l.Addr().String()
	g.serve(l)
	t.Cleanup(func() {
		close(g.ended)
		g.set(t, proxyRefuse)
		g.mu.Lock()
		g.closeAll(true)
		g.mu.Unlock()
		g.wg.Wait()
	})
	return g
}

func (g *faultProxy) serve(l net.Listener) {
	g.listener = l
	g.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.wg.Go(func() { g.client(c) })
		}
	})
}

// set changes the mode, also for open connections.
func (g *faultProxy) set(t testing.TB, mode proxyMode) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode = mode
	close(g.changed)
	g.changed = make(chan struct{})
	refuses := mode == proxyRefuse || mode == proxyDead
	switch {
	case refuses && g.listener != nil:
		g.listener.Close()
		g.listener = nil
	case !refuses && g.listener == nil:
		l, err := porttest.Listen(g.addr)
		if err != nil {
			t.Error(err)
			return
		}
		g.serve(l)
	}
	if mode == proxyDead {
		for c := range g.conns {
			c.dead = true
		}
	}
	if mode == proxyRefuse {
		g.closeAll(false)
	}
}

// closeAll closes connections, including the dead ones if dead is set. It requires mu.
func (g *faultProxy) closeAll(dead bool) {
	for c := range g.conns {
		if !c.dead || dead {
			c.Close()
			c.server.Close()
		}
	}
}

// dialled returns the number of connections since its last call.
func (g *faultProxy) dialled() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.dials
	g.dials = 0
	return n
}

func (g *faultProxy) client(c net.Conn) {
	defer c.Close()
	server, err := net.Dial("tcp", g.real)
	if err != nil {
		return
	}
	defer server.Close()
	this := &proxyConn{Conn: c, server: server}
	g.mu.Lock()
	g.conns[this] = true
	g.dials++
	if g.listener == nil {
		c.Close() // accepted while the proxy closed
	}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.conns, this)
		g.mu.Unlock()
	}()
	from, back := bufio.NewReader(c), bufio.NewReader(server)
	for {
		command, name, err := readCommand(from)
		if err != nil {
			return
		}
		mode, ok := g.hold(this)
		if !ok {
			io.Copy(io.Discard, c) // until it is closed
			return
		}
		if mode.reply != "" && name != "HELLO" && name != "PING" && name != "CLUSTER" {
			if _, err := io.WriteString(c, mode.reply); err != nil {
				return
			}
			continue
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		reply, err := readReply(back, nil)
		if err != nil {
			return
		}
		switch mode {
		case proxySlow:
			select {
			case <-time.After(slowDelay):
			case <-g.ended:
				return
			}
		case proxyFar:
			<-time.After(farDelay)
		case proxyReset:
			c.Write(reply[:len(reply)/2])
			c.(*net.TCPConn).SetLinger(0)
			return
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// hold waits while the mode is mute and returns the mode after that. It reports false for a
// dead connection.
func (g *faultProxy) hold(c *proxyConn) (proxyMode, bool) {
	for {
		g.mu.Lock()
		mode, changed, dead := g.mode, g.changed, c.dead
		g.mu.Unlock()
		if dead {
			return mode, false
		}
		if mode != proxyMute {
			return mode, true
		}
		<-changed
	}
}

// readCommand reads a command from a client and returns its bytes and its name.
func readCommand(r *bufio.Reader) (raw []byte, name string, err error) {
	raw, err = readReply(r, nil)
	if err != nil {
		return nil, "", err
	}
	if n, err := fmt.Sscanf(string(raw[:min(len(raw), 64)]), "*%d\r\n$%d\r\n%s\r\n", new(int), new(int), &name); n != 3 {
		return nil, "", fmt.Errorf("fault proxy: command %.40q: %w", raw, err)
	}
	return raw, name, nil
}

// readReply reads one RESP 2 or 3 value and appends it to raw.
func readReply(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil || len(line) < 3 {
		return nil, fmt.Errorf("fault proxy: line %.40q: %w", line, err)
	}
	raw = append(raw, line...)
	n, _ := strconv.Atoi(string(line[1 : len(line)-2]))
	switch line[0] {
	case '$', '=', '!':
		if n >= 0 {
			at := len(raw)
			raw = append(raw, make([]byte, n+2)...)
			_, err = io.ReadFull(r, raw[at:])
		}
		return raw, err
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return raw, nil
	}
	for range n {
		if raw, err = readReply(r, raw); err != nil {
			return nil, err
		}
	}
	return raw, nil
}
