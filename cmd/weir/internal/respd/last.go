package respd

import (
	"errors"
	"io"
	"os"
	"time"
)

// The times of a connection while the server shuts down.
const (
	// lastCommands is for how long commands are still read.
	lastCommands = 2 * time.Second
	// firstQuiet is for how long nothing has to come for a pipeline to be over. It halves,
	// down to leastQuiet, whenever no command is left unfinished: so whoever asks again as
	// soon as it has its answers ends between two questions.
	firstQuiet = 50 * time.Millisecond
	leastQuiet = 200 * time.Microsecond
	// lastReplies is how long the client has to read the last replies.
	lastReplies = 250 * time.Millisecond
)

// last reads what a client has sent by the time of a shutdown, of which some may still
// be on its way. An error is the end of it.
func (c *conn) last() error {
	now := time.Now()
	switch {
	case c.until.IsZero():
		c.until, c.quiet = now.Add(lastCommands), firstQuiet
	case !now.Before(c.until):
		return os.ErrDeadlineExceeded
	case !c.in.pending():
		c.quiet = max(c.quiet/2, leastQuiet)
	}
	for deadline := now.Add(c.quiet); ; {
		if err := c.nc.SetReadDeadline(deadline); err != nil {
			return err
		}
		err := c.in.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(deadline) {
			return err
		}
		// The deadline was that of Shutdown, which came after ours.
	}
}

// linger ends a connection of a server that shuts down so that the last replies arrive:
// to close it while something has come that nobody reads would take them back.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(lastReplies)) != nil {
		return
	}
	io.Copy(io.Discard, c.nc)
}
