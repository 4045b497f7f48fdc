package plainhttp

import (
	"io"
	"net"
)

// A prefixed is a connection of which some bytes were read before.
type prefixed struct {
	net.Conn
	prefix []byte
}

// Read implements [io.Reader].
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.prefix)
	if p.prefix = p.prefix[n:]; len(p.prefix) == 0 {
		p.prefix = nil
	}
	return n, nil
}

// withMethods returns p with the methods of a TCP connection that the http.Server uses, to copy and
// to half-close.
func (p *prefixed) withMethods() net.Conn {
	if t, ok := p.Conn.(tcpMethods); ok {
		return &prefixedTCP{p, t}
	}
	return p
}

type tcpMethods interface {
	io.ReaderFrom
	CloseWrite() error
}

type prefixedTCP struct {
	*prefixed
	tcpMethods
}
