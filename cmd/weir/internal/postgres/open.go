package postgres

import (
	"context"
	"database/sql"
	"net"
	"time"

	"github.com/lib/pq"
)

const (
	// maxConns bounds the connections of a process: those of decisions and of the ledger of shares,
	// and some for checks.
	maxConns = 10

	idleTime = 5 * time.Minute
)

// Open returns a pool of connections. It sends nothing. Reads and writes that take longer than
// timeout end the connection.
func Open(a Address, timeout time.Duration) (*sql.DB, error) {
	c, err := pq.NewConnectorConfig(a.config)
	if err != nil {
		return nil, err
	}
	c.Dialer(dialer{timeout: timeout})
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxIdleTime(idleTime)
	return db, nil
}

// A dialer opens connections whose reads and writes have a deadline. The driver reads only while a
// call waits, and continues to after the context of the call has ended.
type dialer struct {
	net.Dialer
	timeout time.Duration
}

// DialContext connects within the timeout.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn{c, d.timeout}, nil
}

// Dial implements [pq.Dialer].
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements [pq.Dialer].
func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

type conn struct {
	net.Conn
	timeout time.Duration
}

func (c conn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
