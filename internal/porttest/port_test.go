package porttest

import (
	"net"
	"testing"
)

// TestOwners checks that two owners, as in two processes, never get the same port, and that no
// port is assigned twice before all others.
func TestOwners(t *testing.T) {
	var owners [2]owner
	seen := map[int]bool{}
	for range 100 {
		for i := range owners {
			port, err := owners[i].next()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] || port < lowest || port >= 32768-busOffset {
				t.Fatalf("port %d: want a new one from %d to %d", port, lowest, 32768-busOffset-1)
			}
			seen[port] = true
		}
	}
	for i := range owners {
		owners[i].first.Close()
	}
}

// TestFreeSkipsListeners checks that a port in use is not assigned, nor one whose bus port is.
func TestFreeSkipsListeners(t *testing.T) {
	var o owner
	port, err := o.next()
	if err != nil {
		t.Fatal(err)
	}
	defer o.first.Close()
	for !free(port+1) || !free(port+2) || !free(port+2+busOffset) || !free(port+3) || !free(port+3+busOffset) {
		if port, err = o.next(); err != nil { // a server that another process left uses one of them
			t.Fatal(err)
		}
	}
	for _, taken := range []int{port + 1, port + 2 + busOffset} {
		l, err := net.Listen("tcp", address(taken))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if next, err := o.next(); err != nil || next != port+3 {
		t.Errorf("next = %d, %v, want %d", next, err, port+3)
	}
}

// TestAllOwned checks the error when other processes own all blocks.
func TestAllOwned(t *testing.T) {
	owners := make([]owner, blocks+1)
	failed := false
	for i := range owners {
		if _, err := owners[i].next(); err != nil {
			failed = true
			break
		}
		defer owners[i].first.Close()
	}
	if !failed {
		t.Errorf("%d owners of %d blocks", blocks+1, blocks)
	}
}

// TestListenAgain checks that Listen returns a listener although a child process holds the one
// that was closed.
func TestListenAgain(t *testing.T) {
	l, err := Listen(Address(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if again, err := net.Listen("tcp", address); err == nil {
		again.Close()
		t.Fatalf("%s is free although a copy of its listener is open", address)
	}
	released := make(chan struct{})
	go func() {
		f.Close()
		close(released)
	}()
	l, err = Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	<-released
}
