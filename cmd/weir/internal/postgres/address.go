package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/lib/pq"

	"github.com/floodweir/weir"
)

// An Address has the parameters with which a client connects.
type Address struct{ config pq.Config }

// ParseURL parses postgres://[user[:password]@]host[:port]/database, with the parameters of libpq
// and password_file. Without sslmode it is prefer. An error wraps weir.ErrInvalid and never contains
// a password.
func ParseURL(text string) (Address, error) {
	c, err := parse(text)
	if err != nil {
		return Address{}, fmt.Errorf("postgres: url: %w: %w", weir.ErrInvalid, err)
	}
	return Address{c}, nil
}

func parse(text string) (c pq.Config, err error) {
	u, err := url.Parse(text)
	if err != nil { // its text may contain a password
		return c, errors.New("want postgres://USER@HOST:PORT/DATABASE, percent-encoded, or several hosts as ?host=A,B")
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, errors.New("parameters: want name=value&…, percent-encoded")
	}
	password := ""
	if file := params.Get("password_file"); file != "" {
		if _, both := u.User.Password(); both {
			return c, errors.New("parameter password_file: want no other password in the URL")
		}
		if password, err = readPassword(file); err != nil {
			return c, fmt.Errorf("parameter password_file: %w", err)
		}
		params.Del("password_file")
		u.RawQuery = params.Encode()
	}
	if c, err = pq.NewConfig(u.String()); err != nil {
		return c, err
	}
	if c.Database == "" {
		return c, errors.New("database: got none, want postgres://…/DATABASE")
	}
	if password != "" {
		c.Password = password
	}
	if c.SSLMode == "" {
		c.SSLMode = pq.SSLModePrefer
	}
	if c.ApplicationName == "" {
		c.ApplicationName = "weir"
	}
	c.BinaryParameters = true // one round trip for each call
	return c, nil
}

// readPassword returns the only line of a file.
func readPassword(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" || len(text) > 4096 || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%s: want a file with one line, the password", name)
	}
	return text, nil
}
