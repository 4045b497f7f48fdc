package wire

import (
	"net/http"
	"strings"
	"testing"
)

// TestCookie checks that a session is read only if every reader of the request sees the same
// one.
func TestCookie(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"fs_session=a"}, "a"},
		{[]string{"b=1; fs_session=a; c=2"}, "a"},
		{[]string{"fs_session=a; fs_session=a"}, "a"},
		{[]string{"fs_session=a", "fs_session=a"}, "a"},
		{[]string{"fs_session=a=="}, "a=="},
		{[]string{`fs_session="a"`}, `"a"`},
		{[]string{"FS_SESSION=a"}, ""},
		{[]string{"fs_session =a"}, ""},
		{[]string{"fs_session"}, ""},
		{[]string{"fs_session=a; fs_session=b"}, ""},
		{[]string{"fs_session=a", "fs_session=b"}, ""},
		{[]string{"fs_session=; fs_session=a"}, ""},
		{[]string{"fs_session=a; fs_session="}, ""},
		{[]string{strings.Repeat("b=1; ", 300) + "fs_session=a"}, "a"},
		{[]string{strings.Repeat("b=1; ", 400) + "fs_session=a"}, ""},
		{[]string{strings.Repeat(";", 3000) + "fs_session=a"}, ""},
		{[]string{"fs_session=a;" + strings.Repeat(";", 3000)}, ""},
	} {
		if got := Cookie(http.Header{"Cookie": c.lines}, "fs_session"); got != c.want {
			t.Errorf("%.60q: %q, want %q", c.lines, got, c.want)
		}
	}
}
