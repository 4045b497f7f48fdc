package nginxconf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// files returns the Files of a map from name to content, in one directory.
func files(texts map[string]string) nginxconf.Files {
	return nginxconf.Files{
		Read: func(name string) ([]byte, error) {
			text, ok := texts[name]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(text), nil
		},
		Glob: func(pattern string) (names []string, err error) {
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				ok, err := filepath.Match(pattern, name)
				if err != nil {
					return nil, err
				}
				if ok {
					names = append(names, name)
				}
			}
			return names, nil
		},
	}
}

// read reads one text, of which all includes are absent.
func read(text string) ([]*nginxconf.Directive, error) {
	return nginxconf.Read("nginx.conf", files(map[string]string{"nginx.conf": text}), nil)
}

// shown is directives with their lines, each word in quotes, as Go writes them.
func shown(block []*nginxconf.Directive) string {
	var all []string
	for _, d := range block {
		one := fmt.Sprintf("%d %q", d.Line, append([]string{d.Name}, d.Args...))
		if d.IsBlock() {
			one += " {" + shown(d.Block) + "}"
		}
		all = append(all, one)
	}
	return strings.Join(all, "; ")
}

// TestReadWords checks how words are read.
func TestReadWords(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"# nothing", ""},
		{"a;\n# a comment { ; \"\nb c\td\n e;", `1 ["a"]; 3 ["b" "c" "d" "e"]`},
		{`a '$x "#;{}' "it's \"quoted\"" a#b \;c ${d}e;`, `1 ["a" "$x \"#;{}" "it's \"quoted\"" "a#b" "\\;c" "${d}e"]`},
		{`a "\t\r\n\\'\d" \t\x "";`, `1 ["a" "\t\r\n\\'\\d" "\t\\x" ""]`},
		{"a x\"y'z;", `1 ["a" "x\"y'z"]`},
		{`map $a $b { default "a;b"; "~^x{2}$" 1; }`, `1 ["map" "$a" "$b"] {1 ["default" "a;b"]; 1 ["~^x{2}$" "1"]}`},
		{"a {\n}\nb 'x\ny'\n;c;", `1 ["a"] {}; 3 ["b" "x\ny"]; 5 ["c"]`},
		{"a \\\nb; c;", `1 ["a" "\\\nb"]; 2 ["c"]`},
		{"content_by_lua_block {\nlocal s = \"}\\\"\" .. '}' .. [==[ }}} ]==] -- }\n--[[ } ]] if x then y = { a = { } } end\n} a;", `1 ["content_by_lua_block"] {}; 4 ["a"]`},
	} {
		root, err := read(test.text)
		if got := shown(root); err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", test.text, got, err, test.want)
		}
	}
}

// TestReadBroken checks that a file that nginx refuses is an error with file and line.
func TestReadBroken(t *testing.T) {
	for text, want := range map[string]string{
		"http {":                        `nginx.conf:1: unexpected end of file, want "}"`,
		"}":                             `nginx.conf:1: unexpected '}'`,
		"{% if x %} http { }":           `nginx.conf:1: unexpected {%: want the output of a template, not the template`,
		"http { {{ x }} }":              `nginx.conf:1: unexpected {{: want the output of a template, not the template`,
		"http { a }":                    `nginx.conf:1: unexpected "}", want ";" after a`,
		"http { a":                      `nginx.conf:1: unexpected end of file, want ";" or "}"`,
		"http {\n\n; }":                 `nginx.conf:3: unexpected ';'`,
		`a "b;`:                         "nginx.conf:1: the quotes do not end",
		`a "b"c;`:                       `nginx.conf:1: unexpected 'c' after a word in quotes`,
		"{ }":                           `nginx.conf:1: unexpected '{'`,
		"include;":                      "nginx.conf:1: include: want one file or pattern",
		"include [*.conf;":              "nginx.conf:1: include [*.conf: syntax error in pattern",
		"x_by_lua_block {\n} }\n a { }": `nginx.conf:2: unexpected '}'`,
		"x_by_lua_block {\n '}' --}\n":  "nginx.conf:1: the block of Lua does not end",
		strings.Repeat("a { ", 100):     "want at most 64 blocks within each other",
		strings.Repeat("a { ", 10_000):  "want at most 64 blocks within each other",
	} {
		_, err := read(text)
		var e *nginxconf.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "nginxconf: nginx.conf:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}

// TestReadIncludes checks that includes are replaced by their directives, and bounded.
func TestReadIncludes(t *testing.T) {
	in := files(map[string]string{
		"/etc/nginx.conf":  "a;\ninclude sub/*.conf;\ninclude gone;\ninclude /etc/none-*;\nb { include sub/x; }",
		"/etc/sub/1.conf":  "one;\ninclude sub/x;", // from the directory of the first file
		"/etc/sub/2.conf":  "two;",
		"/etc/sub/x":       "\nx;",
		"/etc/loop.conf":   "a;\ninclude loop.conf;",
		"/etc/broken.conf": "include sub/bad;",
		"/etc/sub/bad":     "\n\n}",
	})
	var gone []string
	absent := func(d *nginxconf.Directive, err error) {
		gone = append(gone, fmt.Sprintf("%s:%d: %s: %v", d.File, d.Line, d, err))
	}
	root, err := nginxconf.Read("/etc/nginx.conf", in, absent)
	if want := `1 ["a"]; 1 ["one"]; 2 ["x"]; 1 ["two"]; 5 ["b"] {2 ["x"]}`; err != nil || shown(root) != want {
		t.Errorf("%s, %v, want %s", shown(root), err, want)
	}
	if want := "[/etc/nginx.conf:3: include gone: open /etc/gone: file does not exist /etc/nginx.conf:4: include /etc/none-*: no file matches /etc/none-*: file does not exist]"; fmt.Sprint(gone) != want {
		t.Errorf("absent are %v, want %s", gone, want)
	}
	for name, want := range map[string]string{
		"/etc/loop.conf":   "nginxconf: /etc/loop.conf:2: include: want at most 32 files that include each other",
		"/etc/broken.conf": "nginxconf: /etc/sub/bad:3: unexpected '}'",
		"/etc/gone.conf":   "open /etc/gone.conf: file does not exist",
	} {
		if _, err := nginxconf.Read(name, in, absent); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestReadBounds checks the bounds on files and bytes.
func TestReadBounds(t *testing.T) {
	many := files(nil)
	many.Read = func(name string) ([]byte, error) {
		if name == "nginx.conf" {
			return []byte("include *;"), nil
		}
		return nil, nil
	}
	many.Glob = func(string) ([]string, error) { return make([]string, 10_000), nil }
	large := files(nil)
	text := []byte("include *;" + strings.Repeat(" ", 1<<20))
	large.Read = func(string) ([]byte, error) { return text, nil }
	large.Glob = func(string) ([]string, error) { return []string{"x"}, nil }
	for want, in := range map[string]nginxconf.Files{"want at most 10000 files": many, "want at most 32 files that include each other": large} {
		if _, err := nginxconf.Read("nginx.conf", in, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	text = []byte("include *;" + strings.Repeat(" ", 4<<20))
	if _, err := nginxconf.Read("nginx.conf", large, nil); err == nil || !strings.Contains(err.Error(), "want at most 67108864 bytes in all files") {
		t.Errorf("%v, want a bound of all bytes", err)
	}
}

// TestRoots checks that absolute includes are found in the directory of a copy, and that a
// pattern without a file is reported.
func TestRoots(t *testing.T) {
	texts := map[string]string{
		"/b/nginx.conf":          "include /etc/nginx/conf.d/*.conf; include /etc/nginx/one; include /opt/two; include three; include /x*;",
		"/copy/conf.d/a.conf":    "a;",
		"/copy/one":              "one;",
		"/all/opt/two":           "two;",
		"/b/three":               "three;",
		"/all/etc/nginx/one":     "wrong;",
		"/copyright/conf.d/none": "wrong;",
	}
	in := files(texts)
	in.Roots = []string{"/all", "/etc/nginx/=/copy"}
	var got, absent []string
	root, err := nginxconf.Read("/b/nginx.conf", in, func(d *nginxconf.Directive, err error) {
		absent = append(absent, fmt.Sprintf("%s: %v %v", d, err, errors.Is(err, os.ErrNotExist)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range root {
		got = append(got, d.Name)
	}
	if want := []string{"a", "one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("directives %q, want %q", got, want)
	}
	if want := []string{"include /x*: no file matches /all/x*: file does not exist true"}; !slices.Equal(absent, want) {
		t.Errorf("absent %q, want %q", absent, want)
	}
	for _, bad := range []string{"", "etc=conf", "/etc="} {
		if nginxconf.CheckRoot(bad) == nil {
			t.Errorf("CheckRoot(%q) = nil, want an error", bad)
		}
	}
	for _, good := range []string{"conf", "/", "/etc/nginx=conf"} {
		if err := nginxconf.CheckRoot(good); err != nil {
			t.Error(err)
		}
	}
}
