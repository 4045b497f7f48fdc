package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	if n := max(1, positive(m["n"]), positive(gemini["candidateCount"])); c.MaxOutput > 0 {
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
	d := json.NewDecoder(bytes.NewReader(body))
	first, err := d.Token()
	if err != nil || first != json.Delim('{') {
		return body
	}
	at := d.InputOffset()
	put := func(from, to int64, text string) []byte {
		return append(append(append([]byte(nil), body[:from]...), text...), body[to:]...)
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return body
		}
		if name != "stream_options" {
			continue
		}
		options := parse(value)
		if options == nil {
			options = members{}
		}
		options["include_usage"] = json.RawMessage("true")
		text, _ := json.Marshal(options)
		return put(d.InputOffset()-int64(len(value)), d.InputOffset(), string(text))
	}
	text := `"stream_options":{"include_usage":true}`
	if !bytes.HasPrefix(bytes.TrimLeft(body[at:], " \t\r\n"), []byte("}")) {
		text += ","
	}
	return put(at, at, text)
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
