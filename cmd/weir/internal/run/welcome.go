package run

import (
	"io"
	"strings"
)

const welcomeText = `Weir is running a demonstration. Ctrl-C ends it.

  gateway   GATEWAY/   each client gets 5/s, 10 at once; open it in a browser
  questions ASK

Try:
  for i in $(seq 15); do curl -s -o /dev/null -w '%{http_code} ' GATEWAY/hello; done; echo
  curl -i GATEWAY/login
  curl -i GATEWAY/report
  curl -d '{"key": "user:42", "limit": "10/s burst 20"}' ASK/v1/take
  curl ASK/readyz

With a file of your own: weir serve weir.yaml (weir check weir.yaml says what is wrong with it).

`

// welcome says what the demonstration offers. Lines about a door that is shut
// are left out.
func welcome(w io.Writer, p *Program) {
	var b strings.Builder
	for line := range strings.Lines(welcomeText) {
		switch {
		case strings.Contains(line, "GATEWAY"):
			if p.gateway == nil {
				continue
			}
			line = strings.ReplaceAll(line, "GATEWAY", p.gateway.url())
		case strings.Contains(line, "ASK"):
			if p.api == nil {
				continue
			}
			line = strings.ReplaceAll(line, "ASK", p.api.url())
		}
		b.WriteString(line)
	}
	io.WriteString(w, b.String())
}
