// Package porttest assigns TCP ports of the loopback interface to the servers of tests.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Each test process owns a block of ports while it listens on the block's first port, so
// processes that run at the same time never get the same port. All ports are below 32768,
// where the kernel assigns ports to outgoing connections. A node of a Redis Cluster uses the
// port busOffset above its own too.
const (
	lowest    = 12000
	blocks    = 20
	blockSize = 500
	busOffset = 10000
)

// An owner assigns the ports of one block in turn, so a port is used again as late as possible.
type owner struct {
	mu    sync.Mutex
	first net.Listener // nil until the first call
	base  int
	used  int
}

var process owner

// Free returns a port without a listener. The port 10,000 above it has none either.
func Free(t testing.TB) int {
	t.Helper()
	port, err := process.next()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Address returns an address with a port from Free.
func Address(t testing.TB) string {
	t.Helper()
	return address(Free(t))
}

// Listen listens on an address whose listener may have closed a moment ago. A child process that
// another test started meanwhile keeps the old listener open until its exec.
func Listen(address string) (net.Listener, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		l, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > 30*time.Second {
			return l, err
		}
	}
}

func (o *owner) next() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first == nil {
		if err := o.claim(); err != nil {
			return 0, err
		}
	}
	for range blockSize {
		port := o.base + 1 + o.used%(blockSize-1)
		o.used++
		if free(port) && free(port+busOffset) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("porttest: all ports from %d to %d are in use", o.base, o.base+blockSize-1)
}

// claim takes a block that no other process owns. It requires mu.
func (o *owner) claim() error {
	for _, i := range rand.Perm(blocks) {
		base := lowest + i*blockSize
		if l, err := net.Listen("tcp", address(base)); err == nil {
			o.first, o.base = l, base
			return nil
		}
	}
	return fmt.Errorf("porttest: %d test processes own all blocks of ports", blocks)
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// free reports whether a port has no listener. It connects instead of listening: a child process
// that another test starts inherits each listener and keeps it open until its exec.
func free(port int) bool {
	c, err := net.Dial("tcp", address(port))
	if err != nil {
		return true
	}
	c.Close()
	return false
}
