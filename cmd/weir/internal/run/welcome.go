package run

import (
	"io"
	"net"
	"strings"
	"text/tabwriter"
)

const welcomeText = `Weir is running a demonstration. Ctrl-C ends it.

  gateway	GATEWAY/	each client gets 5/s, 10 at once; open it in a browser
  questions	ASK	/v1/take and its verbs, /v1/auth for proxies, /json for Envoy's questions
  Envoy	GRPC	rate limit service v3, domain demo
  Redis	RESP	CL.THROTTLE
  admin	ADMIN	metrics, explanations, profiles

Try:
  for i in $(seq 15); do curl -s -o /dev/null -w '%{http_code} ' GATEWAY/hello; done; echo
  curl -i GATEWAY/login
  curl -i GATEWAY/report
  curl -d '{"key": "user:42", "limit": "10/s burst 20"}' ASK/v1/take
  curl -d '{"domain": "demo", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}' ASK/json
  redis-cli -p PORT-OF-RESP CL.THROTTLE user:42 15 30 60
  curl 'ADMIN/v1/explain?path=/login'
  curl ADMIN/metrics

With a file of your own: weir serve weir.yaml (weir check weir.yaml says what is wrong with it).

`

// welcome says what the demonstration offers. Lines about a door that is shut
// are left out.
func welcome(w io.Writer, p *Program) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for line := range strings.Lines(welcomeText) {
		if line, ok := p.fill(line); ok {
			io.WriteString(t, line)
		}
	}
	t.Flush()
}

// fill puts the addresses of the doors into a line, or reports that one is shut.
func (p *Program) fill(line string) (string, bool) {
	at := func(d *door) string {
		if d == nil {
			return ""
		}
		return d.url()
	}
	for _, v := range []struct{ name, value string }{
		{"GATEWAY", at(p.gateway)}, {"ASK", at(p.api)}, {"ADMIN", at(p.admin)},
		{"PORT-OF-RESP", port(p.respAt)}, {"GRPC", text(p.grpcAt)}, {"RESP", text(p.respAt)},
	} {
		if !strings.Contains(line, v.name) {
			continue
		}
		if v.value == "" {
			return "", false
		}
		line = strings.ReplaceAll(line, v.name, v.value)
	}
	return line, true
}

func text(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func port(a net.Addr) string {
	_, port, err := net.SplitHostPort(text(a))
	if err != nil {
		return ""
	}
	return port
}
