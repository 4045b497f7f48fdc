// Package bodytext reads fields of forms and JSON texts from the bodies of requests.
//
// A server may use another one of several values than this package. So a field that occurs twice
// with different values, or under a name that servers treat as the same, has no value.
package bodytext

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir/internal/jsontext"
)

// A Format is the format of a body.
type Format struct {
	media    string
	boundary string // of a multipart form
}

// FormatOf returns the format of a content type. The zero Format has no values. So has a text that
// is not in UTF-8.
func FormatOf(contentType string) (f Format) {
	media, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	if err != nil || charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return f
	}
	return Format{media, params["boundary"]}
}

// IsForm reports whether a body is a form: application/x-www-form-urlencoded or
// multipart/form-data.
func (f Format) IsForm() bool {
	return f.media == "application/x-www-form-urlencoded" || f.media == "multipart/form-data" && f.boundary != ""
}

// IsJSON reports whether a body is a JSON text: application/json, or a type that ends in +json.
func (f Format) IsJSON() bool {
	return f.media == "application/json" || strings.HasSuffix(f.media, "+json")
}

// Field returns the value of a field of a form, or "". The field also has values in the query of the
// request, which some servers prefer.
func (f Format) Field(body []byte, field string, also []string) string {
	var fields []pair
	var ok bool
	if f.media == "multipart/form-data" {
		fields, ok = parts(body, f.boundary)
	} else {
		fields, ok = pairs(body)
	}
	if !ok {
		return ""
	}
	value, found := "", false
	for _, x := range fields {
		switch name := plain(x.name); {
		case x.name == field && (!found || x.value == value) && !x.file:
			value, found = x.value, true
		case name == plain(field), strings.HasPrefix(name, plain(field)+"["):
			return ""
		}
	}
	for _, v := range also {
		if v != value {
			return ""
		}
	}
	return value
}

// A pair is a field of a form.
type pair struct {
	name, value string
	file        bool // or a value with an encoding of its own
}

// pairs returns the fields of an urlencoded form.
func pairs(body []byte) (fields []pair, ok bool) {
	values, err := url.ParseQuery(string(body))
	for name, list := range values {
		for _, v := range list {
			fields = append(fields, pair{name: name, value: v})
		}
	}
	return fields, err == nil
}

// parts returns the fields of a multipart form.
func parts(body []byte, boundary string) (fields []pair, ok bool) {
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := r.NextRawPart()
		if err != nil {
			return fields, err == io.EOF
		}
		text, err := io.ReadAll(p)
		if err != nil {
			return nil, false
		}
		encoded := p.Header.Get("Content-Transfer-Encoding") != ""
		fields = append(fields, pair{p.FormName(), string(text), encoded || p.FileName() != ""})
	}
}

// plain returns the name that servers may use for a field: some ignore case, or replace dots and
// spaces.
func plain(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_").Replace(strings.TrimSpace(name)))
}

// Member returns the text of a member of a JSON text, or "". The path has names of members, joined
// by dots. The value of a member is a text, a number or a boolean.
func Member(body []byte, path string) string {
	if !utf8.Valid(body) || !json.Valid(body) {
		return ""
	}
	for name := range strings.SplitSeq(path, ".") {
		if body = member(body, name); body == nil {
			return ""
		}
	}
	return jsontext.Scalar(body)
}

// member returns the value of a member of a valid JSON text, or nil. Some servers ignore the case
// of names, so another member must not have the same one in another case.
func member(text []byte, name string) (value json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, _ := d.Token(); t != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, _ := d.Token()
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil
		}
		switch {
		case !strings.EqualFold(key.(string), name):
		case value != nil || key != name:
			return nil
		default:
			value = v
		}
	}
	return value
}
