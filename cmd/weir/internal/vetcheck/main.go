package vetcheck

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"
)

// Asked reports whether go vet runs this program as a checker. Then the arguments are
// flags, some with their value as the next argument, and no command.
func Asked(args []string) bool {
	if len(args) == 0 || len(args) > 1 && !strings.HasPrefix(args[0], "-") {
		return false
	}
	last := args[len(args)-1]
	return last == "-V=full" || last == "-flags" || strings.HasSuffix(last, ".cfg") && last[0] != '-'
}

// Main handles a call of go vet and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	last := args[len(args)-1]
	if !strings.HasSuffix(last, ".cfg") {
		unitchecker.Main(Analyzer()) // ends the process
	}
	var u unit
	data, err := os.ReadFile(last)
	if err == nil {
		err = json.Unmarshal(data, &u.Config)
	}
	if err != nil {
		fmt.Fprintf(stderr, "weir: vetcheck: %s: %v\n", last, err)
		return 1
	}
	if len(u.PackageFile) == 0 && len(u.ImportMap) > 0 {
		unitchecker.Main(Analyzer()) // a go command that has compiled nothing
	}
	found, err := u.check()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	asJSON := slices.Contains(args, "-json") || slices.Contains(args, "-json=true")
	if err := u.answer(found, asJSON, stdout); err != nil {
		fmt.Fprintf(stderr, "weir: vetcheck: %v\n", err)
		return 1
	}
	if asJSON {
		return 0
	}
	code := 0
	for _, f := range found {
		if f.note {
			fmt.Fprintf(stderr, "%s: note: %s\n", f.Posn, f.Message)
			continue
		}
		fmt.Fprintf(stderr, "%s: %s\n", f.Posn, f.Message)
		code = 1
	}
	return code
}

// A finding has the form of go vet -json.
type finding struct {
	Posn    string `json:"posn"`
	Message string `json:"message"`
	note    bool   // it does not fail the check
}

// answer writes the result that the go command caches.
func (u *unit) answer(found []finding, asJSON bool, stdout io.Writer) error {
	var text []byte
	if asJSON && len(found) > 0 {
		tree := map[string]map[string][]finding{u.ID: {name: found}}
		var err error
		if text, err = json.MarshalIndent(tree, "", "\t"); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	if u.VetxOutput != "" {
		if err := os.WriteFile(u.VetxOutput, nil, 0o666); err != nil {
			return err
		}
	}
	if u.Stdout != "" {
		return os.WriteFile(u.Stdout, text, 0o666)
	}
	_, err := stdout.Write(text)
	return err
}
