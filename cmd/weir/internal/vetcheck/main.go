package vetcheck

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"
)

// Asked reports whether a program with these arguments is called as a checker by go vet.
func Asked(args []string) bool {
	if len(args) == 0 {
		return false
	}
	for _, a := range args[:len(args)-1] {
		if !strings.HasPrefix(a, "-") {
			return false
		}
	}
	last := args[len(args)-1]
	return last == "-V=full" || last == "-flags" || strings.HasSuffix(last, ".cfg") && last[0] != '-'
}

// Main answers go vet, and ends the process.
func Main(args []string) {
	if idle(args[len(args)-1]) {
		os.Exit(0)
	}
	unitchecker.Main(Analyzer())
}

// idle reports whether there is nothing to say about what a .cfg file describes: nobody
// wants it checked, or none of its files has a directive. Then no types are looked at.
func idle(cfg string) bool {
	data, err := os.ReadFile(cfg)
	if err != nil {
		return false
	}
	var unit unitchecker.Config
	if json.Unmarshal(data, &unit) != nil || unit.Stdout != "" {
		return false
	}
	if !unit.VetxOnly {
		for _, file := range unit.GoFiles {
			if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("weir:")) {
				return false
			}
		}
	}
	// The go command keeps this file as a sign that the package was checked.
	return unit.VetxOutput == "" || os.WriteFile(unit.VetxOutput, nil, 0o666) == nil
}
