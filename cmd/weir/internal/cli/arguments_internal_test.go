package cli

import (
	"errors"
	"testing"
)

func TestArgumentsText(t *testing.T) {
	for _, tc := range []struct {
		usage string
		got   []string
		want  string
	}{
		{"check FILE", nil, "want FILE, got none"},
		{"serve [FILE]", []string{"a", "b c"}, `want [FILE], got "a" "b c"`},
		{"show POLICY KEY... [flags]", []string{"login"}, `want POLICY KEY..., got "login"`},
		{"freeze POLICY KEY... --reason TEXT", nil, "want POLICY KEY..., got none"},
		{"add MERCHANT NAME (--data DIR | --database URL)", []string{"alice"}, `want MERCHANT NAME, got "alice"`},
		{"replay LOG... [--policies FILE]", nil, "want LOG..., got none"},
		{"version", []string{"a", "b", "c", "d", "e"}, `want no arguments, got "a" "b" "c" and 2 more`},
	} {
		if got := argumentsText(tc.usage, tc.got); got != tc.want {
			t.Errorf("argumentsText(%q, %q) = %q, want %q", tc.usage, tc.got, got, tc.want)
		}
	}
}

func TestValueText(t *testing.T) {
	cause := errors.New("want A or B")
	for want, kind := range map[string]string{
		`--n: want a whole number, got "1.5"`: "int64", `--n: want a duration such as 1m30s, got "1.5"`: "duration", `--n "1.5": want A or B`: "letter",
	} {
		if got := valueText("n", kind, "1.5", cause); got != want {
			t.Errorf("valueText(%q) = %q, want %q", kind, got, want)
		}
	}
}
