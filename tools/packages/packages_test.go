package main

import (
	"errors"
	"strings"
	"testing"
)

// TestManPage checks the page of a program with nested commands.
func TestManPage(t *testing.T) {
	pages := map[string]string{
		"help": "Counts things.\n\nStart with `count run`.\n\nUsage:\n  count [command]\n\nAvailable Commands:\n  completion  Generate scripts\n  help        Help\n  run         Run\n\n" +
			"Flags:\n  -h, --help   help for count\n\nUse \"count [command] --help\" for more information about a command.\n",
		"help run": "Run it.\n.A line with a point.\n\nUsage:\n  count run FILE [flags]\n  count run [command]\n\nAvailable Commands:\n  fast        Run fast\n\n" +
			"Flags:\n  -h, --help         help for run\n      --max-n N      at most N\\2 (default \"1\")\n",
		"help run fast": "Run fast.\n\nUsage:\n  count run fast\n",
	}
	page, err := manPage("count", func(args ...string) (string, error) {
		text, ok := pages[strings.Join(args, " ")]
		if !ok {
			return "", errors.New(strings.Join(args, " "))
		}
		return text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".TH COUNT 1\n.SH NAME\ncount \\- Counts things\n",
		"\n.SS count run\n.PP\nRun it.\n\\&.A line with a point.\n",
		"\n.nf\n  count run FILE [flags]\n",
		"\n.TP\n\\fB\\-\\-max\\-n N\\fR\nat most N\\e2 (default \"1\")\n",
		"\n.SS count run fast\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, no := range []string{"completion", "Available Commands", "for more information"} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q", no)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// TestFirstDifference checks that a changed and a missing file of two builds are found.
func TestFirstDifference(t *testing.T) {
	const one = "01  a.deb\n02  a.rpm\n"
	for _, c := range []struct{ other, want string }{
		{one, ""},
		{"01  a.deb\n03  a.rpm\n", "02  a.rpm"},
		{"01  a.deb\n", "02  a.rpm"},
		{one + "04  b.deb\n", "04  b.deb"},
	} {
		if got := firstDifference(one, c.other); got != c.want {
			t.Errorf("firstDifference(…, %q) = %q, want %q", c.other, got, c.want)
		}
	}
}
