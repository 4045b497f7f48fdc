package run

import (
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"
)

const demoText = `Weir is running the demo. Stop it with Ctrl-C.

  gateway	{gateway}/	reverse proxy; each client gets 5/s burst 10; open it in a browser
  HTTP API	{http}	/v1/take and the other verbs, /v1/auth for proxies, /json for Envoy
  gRPC	{grpc}	Envoy rate limit service v3, domain demo
  RESP	{resp}	CL.THROTTLE for redis-cell clients
  admin	{admin}	metrics, explain, profiles

Try:
  for i in $(seq 15); do curl -s -o /dev/null -w '%{http_code} ' {gateway}/hello; done; echo
  curl -i {gateway}/login
  curl -i {gateway}/report
  curl -d '{"key": "user:42", "limit": "10/s burst 20"}' {http}/v1/take
  curl -d '{"domain": "demo", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}' {http}/json
  redis-cli -p {resp-port} CL.THROTTLE user:42 15 30 60
  curl '{admin}/v1/explain?path=/login'
  curl {admin}/metrics

With your own policy file: weir serve weir.yaml (weir check weir.yaml reports errors in it).
`

// printDemo prints the addresses of the interfaces and commands to try. Lines about an
// interface that is off are left out.
func printDemo(w io.Writer, p *Program) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for line := range strings.Lines(demoText) {
		if line, ok := p.fillDemo(line); ok {
			io.WriteString(t, line)
		}
	}
	t.Flush()
}

// fillDemo replaces the placeholders of a line by addresses. It returns false if the line
// is about an interface that is off.
func (p *Program) fillDemo(line string) (string, bool) {
	for _, v := range []struct {
		placeholder string
		listener    *listener
		value       func(*listener) string
	}{
		{"{gateway}", p.gateway, (*listener).url}, {"{http}", p.api, (*listener).url}, {"{admin}", p.admin, (*listener).url},
		{"{grpc}", p.grpc, address}, {"{resp}", p.resp, address}, {"{resp-port}", p.resp, port},
	} {
		if !strings.Contains(line, v.placeholder) {
			continue
		}
		if v.listener == nil {
			return "", false
		}
		line = strings.ReplaceAll(line, v.placeholder, v.value(v.listener))
	}
	return line, true
}

func address(l *listener) string { return l.bound.String() }

func port(l *listener) string { return strconv.Itoa(l.bound.(*net.TCPAddr).Port) }
