package plainhttp

import (
	"bytes"
	"net/http"
	"strings"
)

// A Reply is the head of a response from an upstream, without hop-by-hop fields.
type Reply struct {
	Status int
	Length int    // of the body, by its Content-Length; 0 if there can be none
	Close  bool   // the upstream closes the connection after it
	Size   int    // of the head in bytes
	Fields []Pair // in their order
}

// The results of [Reply.Parse].
const (
	Plain      = int(plain)
	Incomplete = int(incomplete)
	Other      = int(other)
)

// Parse parses the head at the begin of buf, of a response to a method. It returns Other for one that
// http.ReadResponse has to parse: an interim response, one without a Content-Length, one with
// trailers or with unusual bytes.
func (p *Reply) Parse(method string, buf []byte) int {
	end := bytes.Index(buf, []byte("\r\n\r\n"))
	if end < 0 {
		if hasBareLineFeed(buf) {
			return Other // perhaps at its end
		}
		return Incomplete
	}
	head, text := buf[:end+2], "" // each line with its end
	if len(head) <= maxShared {
		text = string(head)
	}
	line := bytes.IndexByte(head, '\n') + 1
	*p = Reply{Status: statusOf(head[:line]), Size: end + 4, Fields: p.Fields[:0]}
	sized, ok := p.parseFields(head, line, text)
	switch {
	case !ok || p.Status < 200:
		return Other
	case method == http.MethodHead || !hasBody(p.Status):
		p.Length = 0
	case !sized:
		return Other
	}
	return Plain
}

// hasBareLineFeed reports whether a line ends without CR.
func hasBareLineFeed(buf []byte) bool {
	for {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			return false
		}
		if i == 0 || buf[i-1] != '\r' {
			return true
		}
		buf = buf[i+1:]
	}
}

// statusOf returns the status of a status line, or 0 if it is unusual.
func statusOf(line []byte) int {
	const code = len(version) + 1
	if len(line) < code+5 || string(line[:code]) != version+" " || line[code+3] != ' ' && line[code+3] != '\r' {
		return 0
	}
	n := 0
	for _, c := range line[code : code+3] {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	for _, c := range line[code+3 : len(line)-2] {
		if classes[c]&valueByte == 0 {
			return 0
		}
	}
	if string(line[len(line)-2:]) != "\r\n" {
		return 0
	}
	return n
}

// parseFields parses the lines of head from an index.
func (p *Reply) parseFields(head []byte, from int, text string) (sized, ok bool) {
	for from < len(head) {
		colon, to := scanLine(head, from)
		if colon < 0 {
			return false, false
		}
		name := nameOf(head[from:colon], substring(head, text, from, colon))
		begin, end := trim(head, colon+1, to)
		value := substring(head, text, begin, end)
		from = to + 2
		switch name {
		case "Content-Length":
			if p.Length = lengthOf(value); sized || p.Length < 0 {
				return false, false
			}
			sized = true
		case "Connection":
			if p.Close = strings.EqualFold(value, "close"); !p.Close && !strings.EqualFold(value, "keep-alive") {
				return false, false
			}
			continue
		case "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te":
			continue
		case "Transfer-Encoding", "Trailer", "Upgrade", "Pragma":
			return false, false
		}
		p.Fields = append(p.Fields, Pair{name, value})
	}
	return sized, true
}
