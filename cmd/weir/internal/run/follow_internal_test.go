package run

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile/published"
)

// TestTextForPrograms checks that programs get a text without the password of the store.
func TestTextForPrograms(t *testing.T) {
	const policies = "\npolicies: [{ name: p, key: client.ip, limits: 1/h }]\n"
	for store, want := range map[string]string{
		"":                                     "",
		"store: redis://10.0.0.1:6379":         "store: redis://10.0.0.1:6379",
		"store: redis://:secret@10.0.0.1":      "store: memory",
		`store: "redis://u:secret@10.0.0.1"`:   `store: "memory"`,
		"a: &s redis://:secret@10.0.0.1":       "",
		`store: "redis://:sec\u0072et@a"`:      "escaped",
		"store: >-\n  redis://:secret@a\n":     "store: >-\n  memory\n",
		"store: redis://a?password=secret":     "store: memory",
		"store: 'rediss://:secret@10.0.0.1/3'": "store: 'memory'",
	} {
		v, err := parse(published.Version{Number: 7, Text: store + policies})
		switch {
		case err != nil && want == "": // no such store
		case err != nil:
			t.Errorf("%s: %v", store, err)
		case want == "escaped" && v.text == "":
		case v.text != want+policies || strings.Contains(v.text, "secret"):
			t.Errorf("%s: the text is %q, want %q", store, v.text, want+policies)
		}
	}
}
