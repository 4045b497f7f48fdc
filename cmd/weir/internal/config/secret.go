package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// A Secret is the token or the password that clients of an interface send, from a file that may
// change.
type Secret struct {
	Flag, File string // the name of the flag and its value
	Value      string // of the last read
	Lines      bool   // the file may have several lines, with spaces

	// Use puts a new value into force.
	Use func(value string) error
}

// Reload reads the file, if there is one, and uses its value if it changed. After an error, which
// it logs, the old value stays.
func (s *Secret) Reload(log *slog.Logger) {
	read := secret
	if s.Lines {
		read = tokens
	}
	value, err := read(s.File)
	if err == nil && value == s.Value {
		return
	}
	if err == nil {
		err = s.Use(value)
	}
	if err != nil {
		log.Error("credentials not reloaded: the old ones stay in force", "setting", s.Flag, "file", s.File, "error", err)
		return
	}
	s.Value = value
	log.Info("credentials reloaded", "setting", s.Flag, "file", s.File)
}

// maxTokens is the maximum size of a file with a token per user.
const maxTokens = 64 << 10

// tokens returns the content of a file with one token, or with lines for several users.
func tokens(name string) (string, error) {
	const want = "want one token without spaces, or lines of the form ROLE NAME SHA256 (see weir token)"
	text, err := content(name, maxTokens)
	if err == nil && name != "" && strings.TrimSpace(text) == "" {
		return "", errors.New(want)
	}
	if err != nil || !strings.ContainsAny(strings.TrimRight(text, "\r\n"), " \t\r\n#") {
		return secret(name)
	}
	for line := range strings.Lines(text) {
		if n := len(strings.Fields(line)); n != 0 && n != 3 && !strings.HasPrefix(line, "#") {
			return "", errors.New(want)
		}
	}
	return text, nil
}

const maxSecret = 4096

// secret returns the content of a file without the line end; "" for no file.
func secret(name string) (string, error) {
	text, err := content(name, maxSecret)
	s := strings.TrimRight(text, "\r\n")
	switch {
	case name == "" || err != nil:
		return "", err
	case s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("want a file with one line of 1 to %d bytes without spaces", maxSecret)
	}
	return s, nil
}

// content returns the content of a file of at most most bytes; "" for no file.
func content(name string, most int64) (string, error) {
	if name == "" {
		return "", nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("want a readable file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("want a readable file: %w", err)
	case int64(len(text)) > most:
		return "", fmt.Errorf("want a file of 1 to %d bytes", most)
	}
	return string(text), nil
}
