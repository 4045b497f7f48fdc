// Package browsertest drives a headless Chromium for a test by the DevTools protocol, over
// the pipe that it offers for that: no port, and nothing but the standard library.
package browsertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// patience is how long a step may take: the machine may be busy with other tests.
const patience = 20 * time.Second

// firstPatience is how long the first one may take: a browser that was never started on a
// machine reads itself and every font from the disk.
const firstPatience = 2 * time.Minute

// A Browser is one Chromium process. Each of its Pages has a profile of its own.
type Browser struct {
	in   io.WriteCloser
	mu   sync.Mutex // of what follows
	last int
	wait map[int]chan answer
	see  map[string]func(method string, params json.RawMessage) // by session
	err  error
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type message struct {
	ID      int             `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Session string          `json:"sessionId"`
	answer
}

// Start starts a Chromium that stops with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test needs a browser: install it (Debian: apt-get install chromium): %v", err)
	}
	itsIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, itsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{itsIn, itsOut} // descriptors 3 and 4
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	itsIn.Close()
	itsOut.Close()
	b := &Browser{in: in, wait: map[int]chan answer{}, see: map[string]func(string, json.RawMessage){}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		// Closed by its own word, it leaves no process and no file behind.
		if _, err := b.call("", "Browser.close", nil); err != nil {
			cmd.Process.Kill()
		}
		cmd.Wait()
		in.Close()
		<-read
		out.Close()
	})
	if _, err := b.callWithin(firstPatience, "", "Target.createBrowserContext", map[string]any{"disposeOnDetach": true}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *Browser) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.err = fmt.Errorf("browsertest: the browser is gone: %w", err)
			for id, c := range b.wait {
				close(c)
				delete(b.wait, id)
			}
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		c, see := b.wait[m.ID], b.see[m.Session]
		delete(b.wait, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && c != nil:
			c <- m.answer
		case m.Method != "" && see != nil:
			see(m.Method, m.Params)
		}
	}
}

// call sends a command to a session, or to the browser, and returns its result.
func (b *Browser) call(session, method string, params any) (json.RawMessage, error) {
	return b.callWithin(patience, session, method, params)
}

func (b *Browser) callWithin(patience time.Duration, session, method string, params any) (json.RawMessage, error) {
	if params == nil {
		params = struct{}{}
	}
	b.mu.Lock()
	if b.err != nil {
		defer b.mu.Unlock()
		return nil, b.err
	}
	b.last++
	id, c := b.last, make(chan answer, 1)
	b.wait[id] = c
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if err == nil && session != "" {
		text, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	}
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("browsertest: %s: %w", method, err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a, ok := <-c:
		switch {
		case !ok:
			return nil, fmt.Errorf("browsertest: %s: the browser is gone", method)
		case a.Error != nil:
			return nil, fmt.Errorf("browsertest: %s: %s", method, a.Error.Message)
		}
		return a.Result, nil
	case <-late.C:
		return nil, fmt.Errorf("browsertest: %s: no answer within %s", method, patience)
	}
}
