package edge_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A storeFake is a server that responds with the result of a function. With Close it closes
// the connection after that. An empty text sends no response.
type storeFake struct {
	addr string

	mu     sync.Mutex
	answer func(command []string) (text string, end bool)
	conns  int // open at the moment
	most   int // at a time
	total  int
	asked  []string // the first word of every command, in capitals
}

func startStoreFake(t *testing.T, answer func(command []string) (string, bool)) *storeFake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &storeFake{addr: l.Addr().String(), answer: answer}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(c, ended) })
		}
	})
	return f
}

func (f *storeFake) serve(c net.Conn, ended chan struct{}) {
	f.mu.Lock()
	f.conns++
	f.total++
	f.most = max(f.most, f.conns)
	f.mu.Unlock()
	defer func() {
		c.Close()
		f.mu.Lock()
		f.conns--
		f.mu.Unlock()
	}()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-ended:
			c.Close()
		case <-stop:
		}
	}()
	r := bufio.NewReader(c)
	for {
		command, err := readStoreCommand(r)
		if err != nil {
			return
		}
		command[0] = strings.ToUpper(command[0])
		f.mu.Lock()
		f.asked = append(f.asked, command[0])
		answer := f.answer
		f.mu.Unlock()
		text, end := answer(command)
		if _, err := io.WriteString(c, text); err != nil || end {
			return
		}
	}
}

func readStoreCommand(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	var words []string
	for range n {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		words = append(words, string(b[:size]))
	}
	return words, err
}

func (f *storeFake) set(answer func(command []string) (string, bool)) {
	f.mu.Lock()
	f.answer = answer
	f.mu.Unlock()
}

// commands returns the commands so far.
func (f *storeFake) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.asked...)
}

func silence([]string) (string, bool) { return "", false }

// storeGrant and storeDenial are replies of lua/takes.lua to one request. storeGeneral is a reply
// of the general path that admits one.
var (
	storeGrant   = storeTakes(1, 0, "")
	storeDenial  = storeTakes(0, 0, "[99999999999999,0,1]")
	storeGeneral = "*1\r\n$56\r\n\x01" + strings.Repeat("\x00", 55) + "\r\n"
)

// storeTakes is a reply of lua/takes.lua at 1 µs.
func storeTakes(admitted int8, undecided byte, states string) string {
	b := binary.LittleEndian.AppendUint64([]byte{1, 0, 0, 0, 0, 0, 0, 0}, uint64(admitted))
	b = append(append(b, undecided, 0), states...)
	return fmt.Sprintf("$%d\r\n%s\r\n", len(b), b)
}
