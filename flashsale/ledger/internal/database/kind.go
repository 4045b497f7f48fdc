package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/jackc/pgx/v5/pgconn"
	sqlitelib "modernc.org/sqlite"
)

// kind is a kind of database error.
type kind int

const (
	other       kind = iota // a bug or a fault of the database; returned as it is
	unavailable             // the database is unavailable
	retry                   // a deadlock or a serialization failure
	data                    // the data is not accepted
)

// unavailableError makes an error of an unavailable database wrap sale.ErrUnavailable.
func unavailableError(err error) error {
	if k := kindOf(err); k == unavailable || k == retry {
		return fmt.Errorf("%w: %w", sale.ErrUnavailable, err)
	}
	return err
}

// IsRejected reports whether the database rejected data.
func IsRejected(err error) bool { return kindOf(err) == data }

func kindOf(err error) kind {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return kindOfPostgres(pg.Code)
	}
	if lite, ok := errors.AsType[*sqlitelib.Error](err); ok {
		return kindOfSQLite(lite.Code())
	}
	for _, gone := range []error{
		context.DeadlineExceeded, context.Canceled, driver.ErrBadConn, sql.ErrConnDone,
		sql.ErrTxDone, // from Commit: the transaction was rolled back when its time was up
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, io.ErrClosedPipe,
	} {
		if errors.Is(err, gone) {
			return unavailable
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return unavailable
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return unavailable
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return unavailable
	}
	if pgconn.SafeToRetry(err) { // the connection was closed before the statement was sent
		return unavailable
	}
	return other
}

// IsDuplicate reports whether err is a violation of a unique index.
func IsDuplicate(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "23505"
	}
	lite, ok := errors.AsType[*sqlitelib.Error](err)
	return ok && (lite.Code() == 2067 || lite.Code() == 1555) // unique, primary key
}

// kindOfPostgres returns the kind of an SQLSTATE.
func kindOfPostgres(code string) kind {
	switch code {
	case "40001", "40P01": // serialization failure, deadlock
		return retry
	case "25006", "55P03", "57014", "25P03", "25P04": // read-only, a lock or a statement or an idle transaction took too long
		return unavailable
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58": // connection, resources (a full disk: 53100), an operator, the system
		return unavailable
	case "22", "23": // data, constraints
		return data
	}
	return other
}

// kindOfSQLite returns the kind of a result code, by its lowest byte.
func kindOfSQLite(code int) kind {
	switch code & 0xff {
	case 5, 6, 7, 8, 9, 10, 13, 14, 15: // busy, locked, no memory, read-only, interrupt, I/O, full, cannot open, protocol
		return unavailable
	case 18, 19, 20: // too big, constraint, mismatch
		return data
	}
	return other
}
