package respd

import (
	"errors"
	"io"
	"os"
	"time"
)

// Timeouts of a connection while the server shuts down.
const (
	// drainTimeout bounds the time in which commands are still read.
	drainTimeout = 2 * time.Second
	// A pipeline counts as complete when the connection is silent for maxQuiet. The time
	// halves, down to minQuiet, whenever no command is incomplete. So a client that sends
	// the next command right after a reply is disconnected between two commands.
	maxQuiet = 50 * time.Millisecond
	minQuiet = 200 * time.Microsecond
	// lingerTimeout bounds the time in which the client reads the last replies.
	lingerTimeout = 250 * time.Millisecond
)

// drain reads what the client has sent before the shutdown, some of which may still be in
// flight. An error ends the connection.
func (c *conn) drain() error {
	now := time.Now()
	switch {
	case c.drainUntil.IsZero():
		c.drainUntil, c.quiet = now.Add(drainTimeout), maxQuiet
	case !now.Before(c.drainUntil):
		return os.ErrDeadlineExceeded
	case !c.in.pending():
		c.quiet = max(c.quiet/2, minQuiet)
	}
	for deadline := now.Add(c.quiet); ; {
		if err := c.nc.SetReadDeadline(deadline); err != nil {
			return err
		}
		err := c.in.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(deadline) {
			return err
		}
		// Shutdown replaced the deadline after it was set here.
	}
}

// linger closes a connection of a server that shuts down so that the last replies arrive.
// Closing it with unread bytes would reset it and discard the replies.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(lingerTimeout)) != nil {
		return
	}
	io.Copy(io.Discard, c.nc)
}
