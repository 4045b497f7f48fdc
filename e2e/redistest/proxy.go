package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Fault is what a Proxy does to replies.
type Fault string

// The faults.
const (
	NoFault     Fault = "none"
	DropReplies Fault = "drop" // the server gets and answers everything, the client hears nothing
	CutReplies  Fault = "cut"  // as DropReplies, and the connection is closed instead
	CutReply    Fault = "once" // as CutReplies, for the next reply alone
)

// A Proxy stands between a client and a server and can lose replies.
type Proxy struct {
	// Addr is its host:port.
	Addr string

	mu    sync.Mutex
	fault Fault
	conns map[net.Conn]bool
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
			wg.Go(func() { // what the client says arrives, even if it left
				io.Copy(s, c)
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

// Set is what becomes of replies from now on. NoFault closes the connections
// whose replies were dropped.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	was := p.fault
	p.fault = f
	p.mu.Unlock()
	if was != NoFault && f == NoFault {
		p.closeAll()
	}
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
		case DropReplies:
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
