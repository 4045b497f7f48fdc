package plainhttp

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// A head has the header fields of a response as they were when WriteHeader was called.
type head struct {
	fields     []field
	length     string            // the first Content-Length
	order      [maxOrdered]uint8 // indexes of fields by name, if they are not more
	has        known
	connection string // its first value
	transfer   string // the first Transfer-Encoding
	encoded    bool   // it has a Content-Encoding
	trailer    []string
	trails     bool // a field has the prefix of trailers
}

// maxOrdered is the number of fields that are sorted by their indexes, which is cheaper than moving
// them. A handler seldom sets more.
const maxOrdered = 32

// A field is a header field. known has a bit if the server may remove it.
type field struct {
	begin  uint64 // the first bytes of name, which sort as it does
	name   string
	values []string
	value  string // if it is single
	single bool
	known  known
}

// known is a set of header fields.
type known uint8

const (
	connectionField known = 1 << iota
	lengthField
	transferField
	typeField
	dateField
)

// take copies the fields of a header, and further ones that replace those with the same names. They
// have no trailers.
func (h *head) take(header http.Header, more []Pair) {
	h.reset()
	for name, values := range header {
		switch {
		case len(more) > 0 && has(more, name):
		case strings.HasPrefix(name, http.TrailerPrefix):
			h.trails = true
		default:
			one := field{begin: beginOf(name), name: name, values: values}
			h.add(&one, first(values))
		}
	}
	for i := range more {
		one := field{begin: beginOf(more[i].Name), name: more[i].Name, value: more[i].Value, single: true}
		h.add(&one, one.value)
	}
	h.sort()
}

// complete sets the further fields of take in header.
func (h *head) complete(header http.Header) {
	var more []Pair
	for i := range h.fields {
		if one := &h.fields[i]; one.single {
			more = append(more, Pair{one.name, one.value})
		}
	}
	Set(header, more)
}

// add appends a field with a first value.
func (h *head) add(one *field, value string) {
	switch one.name {
	case "Connection":
		one.known, h.connection = connectionField, value
	case "Content-Length":
		one.known, h.length = lengthField, value
	case "Transfer-Encoding":
		one.known, h.transfer = transferField, value
	case "Content-Type":
		one.known = typeField
	case "Date":
		one.known = dateField
	case "Content-Encoding":
		h.encoded = value != ""
	case "Trailer":
		h.trailer = one.values
	}
	h.has |= one.known
	h.fields = append(h.fields, *one)
}

// reset removes the fields, but keeps their memory.
func (h *head) reset() {
	h.fields, h.has, h.connection, h.transfer, h.length = h.fields[:0], 0, "", "", ""
	h.encoded, h.trailer, h.trails = false, nil, false
}

// beginOf returns the first bytes of a name, the first of which is the highest.
func beginOf(name string) (b uint64) {
	for i := range min(8, len(name)) {
		b |= uint64(name[i]) << (56 - 8*i)
	}
	return b
}

// sort sorts the fields by name. Those with one name stay in their order.
func (h *head) sort() {
	if len(h.fields) > maxOrdered {
		slices.SortStableFunc(h.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
		return
	}
	for i := range h.fields {
		one, at := &h.fields[i], i
		for ; at > 0; at-- {
			before := &h.fields[h.order[at-1]]
			if before.begin < one.begin || before.begin == one.begin && before.name <= one.name {
				break
			}
			h.order[at] = h.order[at-1]
		}
		h.order[at] = uint8(i)
	}
}

// append appends the lines of the fields, but those of a set.
func (h *head) append(b []byte, cut known) []byte {
	for i := range h.fields {
		at := i
		if len(h.fields) <= maxOrdered {
			at = int(h.order[i])
		}
		one := &h.fields[at]
		if one.known&cut != 0 || !isToken(one.name) {
			continue
		}
		if one.single {
			b = appendLine(b, one.name, one.value)
		}
		for _, v := range one.values {
			b = appendLine(b, one.name, v)
		}
	}
	return b
}

// A Sorter appends headers in the order that package http writes. It is not safe for concurrent use.
type Sorter struct{ head head }

// Add adds a field, whose name differs from the others.
func (s *Sorter) Add(name string, values []string) {
	s.head.fields = append(s.head.fields, field{begin: beginOf(name), name: name, values: values})
}

// Append appends the lines of the fields, sorted by name, and removes them.
func (s *Sorter) Append(b []byte) []byte {
	s.head.sort()
	b = s.head.append(b, 0)
	clear(s.head.fields)
	s.head.fields = s.head.fields[:0]
	return b
}

var newlines = strings.NewReplacer("\n", " ", "\r", " ")

// appendLine appends a field with one value.
func appendLine(b []byte, name, value string) []byte {
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = newlines.Replace(value)
	}
	b = append(append(b, name...), ": "...)
	return append(append(b, textproto.TrimString(value)...), "\r\n"...)
}

// appendStatus appends a status line.
func appendStatus(b []byte, status int) []byte {
	b = append(append(b, version...), ' ')
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	b = append(append(strconv.AppendInt(b, int64(status), 10), ' '), text...)
	return append(b, "\r\n"...)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func isToken(name string) bool {
	for i := 0; i < len(name); i++ {
		if classes[name[i]]&tokenByte == 0 {
			return false
		}
	}
	return name != ""
}

// hasClose reports whether a value of Connection has the option close.
func hasClose(value string) bool {
	for option := range strings.SplitSeq(value, ",") {
		if strings.EqualFold(strings.Trim(option, " \t"), "close") {
			return true
		}
	}
	return false
}

// forbidsTrailer reports whether a field must not be a trailer: see RFC 9110, section 6.5.1.
func forbidsTrailer(name string) bool {
	if strings.HasPrefix(name, "If-") {
		return true
	}
	switch name {
	case "Authorization", "Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type",
		"Expect", "Host", "Keep-Alive", "Max-Forwards", "Pragma", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Range", "Realm", "Te", "Trailer", "Transfer-Encoding", "Www-Authenticate":
		return true
	}
	return false
}
