package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/apiclient"
)

// A request is a request to a running program.
type request struct {
	command     string // for errors: "take"
	to          *url.URL
	path        []string
	query       url.Values
	token       string // "": none
	body        any    // nil: GET
	maxBytes    int64  // maximum size of the response
	unreachable string // what to do without a server
	notWeir     string // the expected server
}

// send sends the request and returns the body of the response.
func (q request) send(ctx context.Context) ([]byte, error) {
	c := apiclient.Client{URL: q.to, Token: q.token, Server: q.notWeir, Command: q.command, Hint: q.unreachable}
	return c.Read(ctx, q.path, q.query, q.body, q.maxBytes)
}

// readToken returns the token of an interface: from the file of --token-file, else of the
// variable with _FILE behind its name, else from the variable; "" for none.
func readToken(command, file, variable string, getenv func(string) string) (string, error) {
	where := "--token-file"
	if file == "" {
		where, file = variable+"_FILE", getenv(variable+"_FILE")
	}
	token := getenv(variable)
	switch {
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", command, where, err)
		}
		token = strings.TrimSpace(string(data))
	case token == "":
		return "", nil
	case strings.ContainsFunc(token, notInToken):
		return "", fmt.Errorf("%s: %s: want the token, in ASCII without spaces", command, variable)
	}
	if token == "" || strings.ContainsFunc(token, notInToken) {
		return "", fmt.Errorf("%s: %s %q: want a file with one line that is the token", command, where, file)
	}
	return token, nil
}

func notInToken(r rune) bool { return r <= ' ' || r >= 0x7f }
