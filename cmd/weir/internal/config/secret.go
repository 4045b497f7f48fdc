package config

import (
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

	// Use puts a new value into force.
	Use func(value string) error
}

// Reload reads the file, if there is one, and uses its value if it changed. After an error, which
// it logs, the old value stays.
func (s *Secret) Reload(log *slog.Logger) {
	value, err := secret(s.File)
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

// secret returns the content of a file without the line end; "" for no file.
func secret(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("want a readable file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	s := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("want a readable file: %w", err)
	case s == "" || len(text) > maxSecret || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("want a file with one line of 1 to %d bytes without spaces", maxSecret)
	}
	return s, nil
}

const maxSecret = 4096
