package run

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/watch"
)

// A lineWriter sends every line of a log.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// until returns the next line that contains text.
func (w lineWriter) until(t *testing.T, text string) string {
	t.Helper()
	for late := time.After(patient); ; {
		select {
		case line := <-w:
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			t.Fatalf("the log has no line with %q", text)
		}
	}
}

// served is a program on free ports that reads its policies from file.
type served struct {
	*Program
	file   string
	log    lineWriter
	hangup chan os.Signal
}

func serveFile(t *testing.T, flags map[string]string) *served {
	t.Helper()
	s := &served{file: filepath.Join(t.TempDir(), "weir.yaml"), log: make(lineWriter, 100), hangup: make(chan os.Signal)}
	s.write(t, s.file, "policies: [{ name: a, key: client.ip, limits: 1/s }]\n")
	for _, name := range []string{"gateway", "http", "grpc", "resp", "admin"} {
		flags["listen-"+name] = "127.0.0.1:0"
	}
	source := config.Source{File: s.file, Flags: flags, Env: func(string) string { return "" }}
	load := func() (*config.Config, error) { return config.Load(source) }
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if s.Program, err = Start(t.Context(), Input{Config: c, Reload: load, Hangup: s.hangup}, slog.New(slog.NewTextHandler(s.log, nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// write replaces a file at once: the program must not read half of it.
func (s *served) write(t *testing.T, file, text string) {
	t.Helper()
	err := os.WriteFile(file+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHangupReloadsOnce checks that SIGHUP after a change of the file reloads it, that the change is
// not reported after that, and that a later change reloads it too.
func TestHangupReloadsOnce(t *testing.T) {
	s := serveFile(t, map[string]string{})
	s.write(t, s.file, "policies: [{ name: b, key: client.ip, limits: 2/s }]\n")
	s.hangup <- os.Interrupt
	s.log.until(t, `"configuration reloaded" cause=SIGHUP`) // the first, unless the change was reported before the signal
	select {
	case line := <-s.log:
		t.Errorf("after the reload: %s, want nothing", line)
	case <-time.After(5 * watch.DefaultQuiet):
	}
	s.write(t, s.file, "policies: [{ name: c, key: client.ip, limits: 3/s }]\n")
	if got := s.log.until(t, "configuration reloaded"); !strings.Contains(got, `cause="files changed"`) {
		t.Errorf("the next reload is %s, want that of the changed file", got)
	}
}

// TestCredentialsAreReloaded changes the files with the tokens and the password of interfaces:
// the new ones are in force, and invalid ones change nothing.
func TestCredentialsAreReloaded(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"http": "http-token-file", "admin": "admin-token-file", "resp": "resp-password-file"}
	flags := map[string]string{}
	const old = "correct-horse-battery"
	for name, flag := range files {
		flags[flag] = filepath.Join(dir, name)
		if err := os.WriteFile(flags[flag], []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveFile(t, flags)
	accepts := map[string]func(string) bool{
		"http":  func(token string) bool { return authorized(t, s.api.url()+"/v1/take", token) },
		"admin": func(token string) bool { return authorized(t, s.admin.url()+"/metrics", token) },
		"resp":  func(password string) bool { return authenticated(t, s.resp.bound, password) },
	}
	for name, flag := range files {
		t.Run(name, func(t *testing.T) {
			file := flags[flag]
			if !slices.Contains(watchedFiles(s.config), file) {
				t.Errorf("%s is not watched", file)
			}
			s.write(t, file, "staple-horse-battery\n")
			s.log.until(t, "credentials reloaded")
			for token, want := range map[string]bool{old: false, "staple-horse-battery": true} {
				if got := accepts[name](token); got != want {
					t.Errorf("%s is accepted: %t, want %t", token, got, want)
				}
			}
			for _, bad := range []string{"", "two words, of which one is long"} {
				s.write(t, file, bad)
				s.log.until(t, "credentials not reloaded")
			}
			if !accepts[name]("staple-horse-battery") {
				t.Error("an invalid file replaced the secret")
			}
			if name != "resp" {
				s.write(t, file, "short")
				if got := s.log.until(t, "credentials not reloaded"); !strings.Contains(got, "want at least 16") {
					t.Errorf("a short token: %s, want its length", got)
				}
			}
			s.write(t, file, old) // also after errors, and with a policy file that is not valid
			s.write(t, s.file, "policies: [{ name: "+fmt.Sprint(len(file))+" }]\n")
			s.log.until(t, "credentials reloaded")
			if !accepts[name](old) {
				t.Error("the next secret is not in force")
			}
		})
	}
}

// authorized reports whether a token is accepted.
func authorized(t *testing.T, url, token string) bool {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode != http.StatusUnauthorized
}

// authenticated reports whether the RESP interface accepts a password.
func authenticated(t *testing.T, at net.Addr, password string) bool {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "AUTH %s\r\n", password)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line == "+OK\r\n"
}
