package weave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// child runs a command in place of this process, and returns its exit code.
func (c *Config) child(ctx context.Context, dir string, stdout, stderr io.Writer, args ...string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("weave: %w", err)
	}
	// A terminal interrupts the child itself. A signal to this process is meant for the child.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			if s != os.Interrupt {
				cmd.Process.Signal(s)
			}
		}
	}()
	err := cmd.Wait()
	signal.Stop(signals)
	close(signals)
	<-done
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 1, fmt.Errorf("weave: %s: %w", args[0], err)
	case exit.ExitCode() < 0:
		return 1, nil // by a signal
	}
	return exit.ExitCode(), nil
}
