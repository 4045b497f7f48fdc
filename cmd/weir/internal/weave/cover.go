package weave

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The go command measures coverage of what is on disk, overlay or not. A program that it
// runs its tools through (-toolexec) puts that right: it gives the tool that instruments
// files the woven ones, and what is not the user's is not instrumented.

// toolVerb is the command of weir go for -toolexec.
const toolVerb = "toolexec"

// toolexec returns the value of -toolexec: this program with the overlay, and then the
// value of the user.
func toolexec(self, overlay, users string) string {
	quoted := func(s string) string {
		switch {
		case !strings.ContainsAny(s, " \t\"'"):
			return s
		case strings.Contains(s, "'"):
			return `"` + s + `"`
		}
		return "'" + s + "'"
	}
	return strings.TrimSpace(quoted(self) + " go " + toolVerb + " " + quoted(overlay) + " " + users)
}

// tool returns the command line to run for a tool of go, given the overlay file and the
// original command line.
func tool(args []string) ([]string, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("weave: %s: want an overlay and a command after it", toolVerb)
	}
	file, args := args[0], args[1:]
	at := slices.Index(args, "-pkgcfg")
	list := slices.Index(args, "-outfilelist")
	if at < 1 || list < 0 || list+2 > len(args) || strings.TrimSuffix(filepath.Base(args[at-1]), ".exe") != "cover" {
		return args, nil
	}
	var o overlay
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("weave: %s %s: %w", toolVerb, file, err)
	}
	data, err = os.ReadFile(args[list+1])
	if err != nil {
		return nil, fmt.Errorf("weave: %w", err)
	}
	outs, ins := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), args[list+2:]
	if len(outs) != len(ins)+1 {
		return nil, fmt.Errorf("weave: cover: %d files in and %d out: want one more out", len(ins), len(outs))
	}
	out := slices.Clone(args[:list+2])
	keep := outs[:1:1]
	for i, in := range ins {
		actual, ok := o.Replace[in]
		if !ok {
			actual = in
		}
		if !slices.Contains(o.Added, in) {
			out, keep = append(out, actual), append(keep, outs[i+1])
			continue
		}
		code, err := os.ReadFile(actual)
		if err == nil {
			err = os.WriteFile(outs[i+1], code, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("weave: cover: %w", err)
		}
	}
	if err := os.WriteFile(args[list+1], []byte(strings.Join(keep, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("weave: cover: %w", err)
	}
	return out, nil
}
