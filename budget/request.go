package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir/internal/fault"
)

// A ModelRequest has what a request to a language model declares. The zero value declares nothing.
type ModelRequest struct {
	// Model is the name of the model; "" if the request has none.
	Model string

	// MaxOutput is the bound of the output tokens of all choices together; 0 if the request
	// has none.
	MaxOutput int64

	// Stream is true if the request asks for a stream.
	Stream bool

	// Structured is true if the request asks for output in JSON.
	Structured bool

	// Usage is true if the request asks for the usage of a stream of chat completions.
	Usage bool

	// Chat is true for a request of chat completions.
	Chat bool
}

// errNoObject reports a body that is not a JSON object.
var errNoObject = errors.New("want a JSON object")

// ReadRequest reads a ModelRequest from the path and the body of a request. It knows the requests of all
// formats. After an error, the ModelRequest has only what the path declares.
func ReadRequest(path string, body []byte) (ModelRequest, error) {
	c := ModelRequest{
		Model: PathModel(path), Chat: strings.HasSuffix(path, "/chat/completions"),
		Stream: strings.Contains(path, ":streamGenerateContent") || strings.HasSuffix(path, "/converse-stream"),
	}
	var m members
	if err := json.Unmarshal(body, &m); err != nil || m == nil {
		return c, errNoObject
	}
	if model := m.text("model"); model != "" {
		c.Model = model
	}
	gemini, ollama := m.object("generationConfig"), m.object("options")
	for _, raw := range []json.RawMessage{
		m["max_tokens"], m["max_completion_tokens"], m["max_output_tokens"], gemini["maxOutputTokens"],
		m.object("inferenceConfig")["maxTokens"], ollama["num_predict"],
	} {
		c.MaxOutput = max(c.MaxOutput, positive(raw))
	}
	if n := choices(m); c.MaxOutput > 0 {
		c.MaxOutput = min(c.MaxOutput, MaxTokens/n) * n
	}
	streams := strings.HasSuffix(path, "/api/chat") || strings.HasSuffix(path, "/api/generate") // Ollama
	if m.has("stream") {
		streams = string(m["stream"]) == "true"
	}
	c.Stream = c.Stream || streams
	c.Usage = string(m.object("stream_options")["include_usage"]) == "true"
	for _, o := range []members{m.object("response_format"), m.object("text").object("format"), m.object("output_format"), m.object("output_config").object("format")} {
		kind := o.text("type")
		c.Structured = c.Structured || kind != "" && kind != "text"
	}
	c.Structured = c.Structured || m.has("format") || gemini.text("responseMimeType") == "application/json"
	return c, nil
}

// positive returns a whole number from 1 to MaxTokens, or 0.
func positive(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > MaxTokens {
		return 0
	}
	return n
}

// AddUsage returns the body of a request of chat completions with stream_options.include_usage set
// to true, and otherwise unchanged. It returns body itself if that is not a JSON object.
func AddUsage(body []byte) []byte {
	return set(body, "stream_options", func(old json.RawMessage) []byte {
		return with(old, "include_usage", []byte("true"))
	})
}

// LimitOutput returns the body of a request with its bound of the output tokens lowered to MaxOutput for
// all choices together, or set to that. It returns body itself if its bound is lower, or if it is not a
// JSON object. With the format Auto, the path decides; an unknown one is that of chat completions.
func (m *Meter) LimitOutput(path string, body []byte) []byte {
	request := parse(bytes.TrimSpace(body))
	if request == nil {
		return body
	}
	format, most := m.c.Format, max(1, m.c.MaxOutput/choices(request))
	if format == Auto {
		format = pathFormat(path)
	}
	object, names := "", []string{m.c.IncludeMax, "max_tokens", "max_completion_tokens"}
	switch format {
	case OpenAIResponses:
		names = []string{"max_output_tokens"}
	case Anthropic:
		names = []string{"max_tokens"}
	case Gemini:
		object, names = "generationConfig", []string{"maxOutputTokens"}
	case Bedrock:
		object, names = "inferenceConfig", []string{"maxTokens"}
	case Ollama:
		object, names = "options", []string{"num_predict"}
	}
	in := request
	if object != "" {
		in = request.object(object)
	}
	has := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !in.has(name) })
	if len(has) == 0 {
		has = names[:1]
	}
	number := strconv.AppendInt(nil, most, 10)
	for _, name := range has {
		switch n := positive(in[name]); {
		case n > 0 && n <= most:
		case object == "":
			body = set(body, name, func(json.RawMessage) []byte { return number })
		default:
			body = set(body, object, func(old json.RawMessage) []byte { return with(old, name, number) })
		}
	}
	return body
}

// pathFormat returns the format of a request by the end of its path; OpenAIChat if it is unknown.
func pathFormat(path string) Format {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return OpenAIResponses
	case strings.HasSuffix(path, "/messages"):
		return Anthropic
	case strings.Contains(path, ":generateContent"), strings.Contains(path, ":streamGenerateContent"):
		return Gemini
	case strings.HasSuffix(path, "/converse"), strings.HasSuffix(path, "/converse-stream"):
		return Bedrock
	case strings.HasSuffix(path, "/api/chat"), strings.HasSuffix(path, "/api/generate"):
		return Ollama
	}
	return OpenAIChat
}

// choices returns the number of responses that a request asks for.
func choices(m members) int64 {
	return max(1, positive(m["n"]), positive(m.object("generationConfig")["candidateCount"]))
}

// with returns a JSON object with a member replaced or added; of anything else, an object with that.
func with(object json.RawMessage, name string, value []byte) []byte {
	m := parse(object)
	if m == nil {
		m = members{}
	}
	m[name] = value
	text, _ := json.Marshal(m) // raw messages always marshal
	return text
}

// set returns a JSON object with one member replaced, each time that it occurs, or added. The rest is
// unchanged. It returns body itself if that is not a JSON object. The value gets the one before, or none.
func set(body []byte, name string, value func(old json.RawMessage) []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	first, err := d.Token()
	if err != nil || first != json.Delim('{') {
		return body
	}
	start, done := d.InputOffset(), int64(0)
	var out []byte
	for d.More() {
		member, err := d.Token()
		var old json.RawMessage
		if err != nil || d.Decode(&old) != nil {
			return body
		}
		if member == name {
			out = append(append(out, body[done:d.InputOffset()-int64(len(old))]...), value(old)...)
			done = d.InputOffset()
		}
	}
	if done > 0 {
		return append(out, body[done:]...)
	}
	out = append(strconv.AppendQuote(append(out, body[:start]...), name), ':')
	out = append(out, value(nil)...)
	if !bytes.HasPrefix(bytes.TrimLeft(body[start:], " \t\r\n"), []byte("}")) {
		out = append(out, ',')
	}
	return append(out, body[start:]...)
}

// Refuse returns the reason to deny a call, or nil: Prices has no price for its model. The error
// wraps ErrUnknownModel.
func (m *Meter) Refuse(c ModelRequest) error {
	switch {
	case m.c.Unit != USD || !m.c.Prices.deny || m.c.Prices.find(c.Model) != nil:
		return nil
	case c.Model == "":
		return fmt.Errorf("%w: the request names none", ErrUnknownModel)
	}
	return fmt.Errorf("%w: %s", ErrUnknownModel, fault.Quote(c.Model))
}
