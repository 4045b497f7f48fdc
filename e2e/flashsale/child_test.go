package flashsale_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// A shopProcess is a shop in a process of its own, which a test can kill.
type shopProcess struct {
	child.Line // its first message
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        *json.Decoder
	mu         sync.Mutex    // one command at a time
	Ended      chan struct{} // closed when the process has ended
}

// startChild starts a shop and waits until it is ready. The error is errKilled if it was killed
// before.
func startChild(t *testing.T, o child.Order) (*shopProcess, error) {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &shopProcess{cmd: exec.Command(programtest.Build(t, "./e2e/flashsale/child/program", "-tags=crashpoints"), string(order)), Ended: make(chan struct{})}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdout = w
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() { c.cmd.Wait(); close(c.Ended) }()
	t.Cleanup(func() { c.Kill(); out.Close() })
	c.out = json.NewDecoder(bufio.NewReader(out))
	if err := c.out.Decode(&c.Line); err != nil {
		<-c.Ended
		if c.killed() {
			return c, errKilled
		}
		return c, fmt.Errorf("child: %v: %w", c.cmd.ProcessState, err)
	}
	return c, nil
}

var errKilled = errors.New("child was killed before it was ready")

// killed reports whether SIGKILL ended the process.
func (c *shopProcess) killed() bool {
	s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}

// Kill kills the process and waits for its end.
func (c *shopProcess) Kill() {
	select {
	case <-c.Ended:
	default:
		c.cmd.Process.Signal(syscall.SIGKILL)
		<-c.Ended
	}
}

// awaitStopped waits until SIGSTOP has stopped the process.
func (c *shopProcess) awaitStopped(t *testing.T) {
	t.Helper()
	redistest.Await(t, "the process to stop", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			err = fmt.Errorf("state %q, want stopped", stat)
		}
		return err
	})
}

// Stop stops the process in order.
func (c *shopProcess) Stop() error {
	c.in.Close()
	return c.ends()
}

// Terminate stops the process by SIGTERM.
func (c *shopProcess) Terminate() error {
	c.cmd.Process.Signal(syscall.SIGTERM)
	return c.ends()
}

func (c *shopProcess) ends() error {
	select {
	case <-c.Ended:
	case <-time.After(2 * time.Minute):
		c.Kill()
		return errors.New("child did not stop within 2 minutes")
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("child: %v", c.cmd.ProcessState)
	}
	return nil
}

// Do runs a command in the process.
func (c *shopProcess) Do(command string) (child.Line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, command+"\n"); err != nil {
		return child.Line{}, err
	}
	var l child.Line
	if err := c.out.Decode(&l); err != nil {
		return l, fmt.Errorf("child: %s: %w", command, err)
	}
	if l.Error != "" {
		return l, errors.New(l.Error)
	}
	return l, nil
}
