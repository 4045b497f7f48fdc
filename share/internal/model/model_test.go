// Package model_test checks the protocol of package share by the model checker Spin.
package model_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	full = flag.Bool("model.full", false, "visit the states of larger limits too, and plant every error (a minute)")
	seed = flag.Uint64("model.seed", 0, "chooses the errors that are planted; random if 0")
)

// check visits all states of the model under macros, and returns the first violation and the number of
// states. A search of few states is faster without optimization of its program.
func check(t *testing.T, macros, optimize string) (violation, states string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("shares.pml")
	if err == nil {
		err = os.WriteFile(dir+"/shares.pml", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s\nSpin and gcc are needed: make need installs them", name, args, err, out)
		}
		return string(out)
	}
	run("spin", append(append([]string{"-a"}, strings.Fields(macros)...), "shares.pml")...)
	run("gcc", "-w", "-O"+optimize, "-DSAFETY", "-DBFS", "-DMEMLIM=2000", "-o", "pan", "pan.c")
	out := run("./pan", "-w20")
	if m := regexp.MustCompile(`pan:\d+: (.*)`).FindStringSubmatch(out); m != nil {
		violation = m[1]
	}
	m := regexp.MustCompile(`(\d+) states, stored`).FindStringSubmatch(out)
	if m == nil || strings.Contains(out, "out of memory") || strings.Contains(out, "Search not completed") && violation == "" {
		t.Fatalf("the search did not end:\n%s", out)
	}
	return violation, m[1]
}

// TestModel visits all states of three holders, and of two with tokens, under one limit and under
// two that requests put in force in turns.
func TestModel(t *testing.T) {
	all, level := []string{"-DW0=1", "-DW0=1 -DLIMITS=4", "-DN=2 -DTOKENS=1 -DLIMITS=2"}, "0"
	if *full {
		level = "1"
		all = append(all, "", "-DLIMITS=4", "-DLIMITS=6", "-DN=2 -DTOKENS=1", "-DN=2 -DTOKENS=1 -DLIMITS=2 -DW0=3", "-DN=2 -DTOKENS=1 -DLIMITS=2 -DW0=1 -DW1=2", "-DN=2 -DTOKENS=1 -DUSABLE=1")
	}
	for _, macros := range all {
		violation, states := check(t, macros, level)
		t.Logf("%q: %s states", macros, states)
		if violation != "" {
			t.Errorf("%q: %s", macros, violation)
		}
	}
}

// TestPlantedErrors plants errors in the model: an assertion finds each. Three of them by chance,
// because each is a compilation; make model plants all.
func TestPlantedErrors(t *testing.T) {
	plants := []struct{ plant, macros string }{
		{"USED_AFTER_ITS_END", "-DW0=1"},
		{"TAKEN_BACK_EARLY", "-DW0=1"},
		{"RECIPIENT_FIRST", "-DW0=1"},
		{"GIVEN_BACK_LATE", "-DW0=1"},
		{"KEPT_WITHOUT_ROW", "-DW0=1"},
		{"WATCHED_BY_ITS_HOLDER", "-DW0=1"},
		{"WRITTEN_WITHOUT_VERSION", "-DW0=1"},
		{"LEASE_FROM_REPLY", "-DW0=1"},
		{"TAKEN_BACK_FULL", "-DN=2 -DTOKENS=1"},
		{"REMAINDER_FORGETS", "-DN=2 -DTOKENS=1 -DLIMITS=2 -DW0=3"},
	}
	if !*full {
		chosen := cmp.Or(*seed, rand.Uint64())
		t.Logf("-model.seed %d", chosen)
		rand.New(rand.NewPCG(chosen, 0)).Shuffle(len(plants), func(i, j int) { plants[i], plants[j] = plants[j], plants[i] })
		plants = plants[:3]
	}
	for _, c := range plants {
		t.Run(c.plant, func(t *testing.T) {
			violation, states := check(t, fmt.Sprint(c.macros, " -DPLANT_", c.plant), "0")
			t.Logf("%s states: %s", states, violation)
			if violation == "" {
				t.Errorf("no assertion fails in %s states", states)
			}
		})
	}
}
