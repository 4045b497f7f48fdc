package database

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	sqlitelib "modernc.org/sqlite"
)

// sqliteConnector opens SQLite connections that prepare each statement once; the driver alone
// parses it every time. pgx caches prepared statements itself.
type sqliteConnector struct {
	driver.Connector
}

func newSQLiteConnector(dsn string) (driver.Connector, error) {
	c, err := sqlitelib.NewConnector(dsn)
	return sqliteConnector{c}, err
}

// sqliteConn lists the methods of the driver's connections.
type sqliteConn interface {
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
func (p sqliteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	lite, ok := c.(sqliteConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("a connection to SQLite of type %T", c)
	}
	return &preparedConn{sqliteConn: lite, stmts: map[string]liteStmt{}}, nil
}

// maxPrepared bounds the statements of a connection; a ledger has fewer.
const maxPrepared = 200

// preparedConn caches prepared statements by text. A statement is read to its end before it is
// used again.
type preparedConn struct {
	sqliteConn
	stmts map[string]liteStmt
}

// statement returns the prepared statement of a text, or nil if it is not cached.
func (c *preparedConn) statement(ctx context.Context, text string) (liteStmt, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	if len(c.stmts) >= maxPrepared || strings.Contains(text, ";") { // several statements
		return nil, nil
	}
	s, err := c.sqliteConn.PrepareContext(ctx, text)
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
		return c.sqliteConn.ExecContext(ctx, text, args)
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
		return c.sqliteConn.QueryContext(ctx, text, args)
	}
	return s.QueryContext(ctx, args)
}

// Close implements driver.Conn.
func (c *preparedConn) Close() error {
	for _, s := range c.stmts {
		_ = s.Close() // the connection closes too
	}
	clear(c.stmts)
	return c.sqliteConn.Close()
}
