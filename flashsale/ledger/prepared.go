package ledger

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	sqlitelib "modernc.org/sqlite"
)

// A preparer opens connections to SQLite that prepare a statement once: the driver would
// parse it every time. (pgx keeps what it has prepared by itself.)
type preparer struct {
	driver.Connector
}

func newPreparer(dsn string) (driver.Connector, error) {
	c, err := sqlitelib.NewConnector(dsn)
	return preparer{c}, err
}

// A liteConn is what the driver's connections can do.
type liteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type liteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Connect implements driver.Connector.
func (p preparer) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	lite, ok := c.(liteConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("a connection to SQLite of type %T", c)
	}
	return &preparedConn{liteConn: lite, stmts: map[string]liteStmt{}}, nil
}

// maxPrepared bounds what a connection keeps; a ledger has fewer statements.
const maxPrepared = 200

// A preparedConn keeps its statements by their text. One that is under way is read to its
// end before it is asked again.
type preparedConn struct {
	liteConn
	stmts map[string]liteStmt
}

// statement is the prepared statement of a text, or nil if it is not to be kept.
func (c *preparedConn) statement(ctx context.Context, text string) (liteStmt, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	if len(c.stmts) >= maxPrepared || strings.Contains(text, ";") { // several statements
		return nil, nil
	}
	s, err := c.liteConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	lite, ok := s.(liteStmt)
	if !ok {
		return nil, s.Close()
	}
	c.stmts[text] = lite
	return lite, nil
}

// ExecContext implements driver.ExecerContext.
func (c *preparedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.statement(ctx, text)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return c.liteConn.ExecContext(ctx, text, args)
	}
	return s.ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *preparedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.statement(ctx, text)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return c.liteConn.QueryContext(ctx, text, args)
	}
	return s.QueryContext(ctx, args)
}

// Close implements driver.Conn.
func (c *preparedConn) Close() error {
	for _, s := range c.stmts {
		_ = s.Close() // the connection is closed with it
	}
	clear(c.stmts)
	return c.liteConn.Close()
}
