package redistest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// A Fault says how a Proxy handles commands and replies.
type Fault string

// The faults.
const (
	NoFault     Fault = "none"
	DropReplies Fault = "drop" // the server handles every command, the client receives no reply
	CutReplies  Fault = "cut"  // the connection is closed in place of a reply
	CutReply    Fault = "once" // as CutReplies, for the next reply only
	DropAll     Fault = "both" // neither commands nor replies arrive

	DropCommands Fault = "mute" // replies to earlier commands arrive
)

// A Proxy forwards a client's connections to a server and can drop what they carry.
type Proxy struct {
	// Addr is its host:port.
	Addr string

	mu    sync.Mutex
	fault Fault
	until []byte // in a command: DropCommands begins after it; nil if none
	conns map[net.Conn]bool
	ended bool // closes what add receives
}

// StartProxy runs a proxy to a server until the test ends.
func StartProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), fault: NoFault, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.ended = true // a connection that was accepted may not be in conns yet
		p.mu.Unlock()
		p.closeAll()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", server)
			if err != nil {
				c.Close()
				continue
			}
			p.add(c, s)
			wg.Go(func() { // commands arrive even after the client closed
				io.Copy(commands{p, s}, c)
				c.Close()
			})
			wg.Go(func() {
				p.replies(c, s)
				c.Close()
				s.Close()
				p.remove(c, s)
			})
		}
	})
	return p
}

// Set selects the fault for replies from now on. NoFault closes the connections whose replies
// were dropped.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	was := p.fault
	p.fault = f
	p.mu.Unlock()
	if was != NoFault && f == NoFault {
		p.closeAll()
	}
}

// DropAfter selects DropCommands once a command with a text was forwarded.
func (p *Proxy) DropAfter(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = []byte(text)
}

// commands forwards commands to a server.
type commands struct {
	p *Proxy
	io.Writer
}

func (c commands) Write(b []byte) (int, error) {
	c.p.mu.Lock()
	dropped := c.p.fault == DropAll || c.p.fault == DropCommands
	if c.p.until != nil && bytes.Contains(b, c.p.until) { // it is in one packet: commands are small
		c.p.fault, c.p.until = DropCommands, nil
	}
	c.p.mu.Unlock()
	if dropped {
		return len(b), nil
	}
	return c.Writer.Write(b)
}

func (p *Proxy) replies(c, s net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := s.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		fault := p.fault
		if fault == CutReply {
			p.fault = NoFault
		}
		p.mu.Unlock()
		switch fault {
		case CutReplies, CutReply:
			return
		case DropReplies, DropAll:
			continue
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) add(cs ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		p.conns[c] = true
		if p.ended {
			c.Close()
		}
	}
}

func (p *Proxy) remove(cs ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		delete(p.conns, c)
	}
}

func (p *Proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}
