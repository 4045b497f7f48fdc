package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile"
)

// A Config has the inputs and outputs of the commands. All fields are required.
type Config struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Load reads a policy file, with all checks of `weir check`.
	Load func(path string) (*weirfile.File, error)

	// Running returns the policies of a running program, from the admin interface at a URL.
	// Without a URL or a file with its token it uses the defaults.
	Running func(ctx context.Context, admin, tokenFile string) (*weirfile.File, error)

	// Published returns a version of the policies in a Redis, or the current one for 0.
	Published func(ctx context.Context, store string, version int64) (*weirfile.File, error)
}

// Commands returns the commands. Their errors are those of the functions of c, [suggest.ErrTooLittle], wrong
// usage, or an unreadable file.
func Commands(c Config) []*cobra.Command {
	return []*cobra.Command{c.sim(), c.replay(), c.suggest()}
}

// width is the number of columns of plots.
const width = 78

// perSecond reads a rate such as 20/s.
func perSecond(flag, text string) (float64, error) {
	l, err := weir.ParseLimit(text)
	if err != nil || l.Period() == 0 || l.IsConcurrency() {
		return 0, fmt.Errorf("--%s: got %q, want a rate such as 20/s", flag, text)
	}
	return float64(l.Count()) / l.Period().Seconds(), nil
}

// create writes a file.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	err = write(b)
	for _, next := range []func() error{b.Flush, f.Close} {
		if e := next(); err == nil {
			err = e
		}
	}
	return err
}

// printJSON writes v as one JSON document.
func (c *Config) printJSON(v any) error {
	e := json.NewEncoder(c.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
