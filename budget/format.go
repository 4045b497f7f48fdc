package budget

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A Format is the form in which responses report usage.
type Format string

// The formats.
const (
	// Auto recognizes the format of each response.
	Auto Format = "auto"
	// OpenAIChat is the chat completions API of OpenAI, which vLLM and others use too.
	// Streams report usage only if the request has stream_options.include_usage.
	OpenAIChat Format = "openai-chat"
	// OpenAIResponses is the responses API of OpenAI.
	OpenAIResponses Format = "openai-responses"
	// Anthropic is the messages API of Anthropic.
	Anthropic Format = "anthropic"
	// Gemini is the generateContent API of Google.
	Gemini Format = "gemini"
	// Bedrock is the Converse API of AWS Bedrock, without its streams, which are binary.
	Bedrock Format = "bedrock"
	// Ollama is the native API of Ollama.
	Ollama Format = "ollama"
)

// Formats lists the formats.
func Formats() []Format {
	return []Format{Auto, OpenAIChat, OpenAIResponses, Anthropic, Gemini, Bedrock, Ollama}
}

// MaxTokens is the largest count that a response can report. A larger one is no count.
const MaxTokens = 1 << 40

// A count is one number that a response reports.
type count struct {
	n   int64
	set bool // reported; n may be 0
	bad bool // reported, and no count
}

// read replaces c with text. A missing number and null keep the earlier value.
func (c *count) read(text json.RawMessage) {
	if len(text) == 0 || string(text) == "null" {
		return
	}
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	u, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || u > MaxTokens {
		*c = count{bad: true}
		return
	}
	*c = count{n: int64(u), set: true}
}

// members are the members of a JSON object. Names are compared exactly.
type members map[string]json.RawMessage

func parse(text []byte) members {
	var m members
	if len(text) == 0 || text[0] != '{' || json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}

func (m members) object(name string) members { return parse(m[name]) }

func (m members) text(name string) string {
	var s string
	if raw := m[name]; len(raw) > 0 && raw[0] == '"' {
		_ = json.Unmarshal(raw, &s)
	}
	return s
}

func (m members) has(name string) bool {
	raw, ok := m[name]
	return ok && string(raw) != "null"
}

// counts are the numbers of a response. Events are cumulative, so each replaces the numbers that
// it has.
type counts struct {
	input, cached, write, write1h, tools count
	output, thoughts                     count
	inclusive                            bool // input includes cached and write
	complete                             bool // the numbers are final
}

// detect returns the format of an event, or "".
func detect(e members) Format {
	kind, object := e.text("type"), e.text("object")
	usage := e.object("usage")
	switch {
	case strings.HasPrefix(kind, "message") || kind == "content_block_start" || kind == "content_block_delta":
		return Anthropic
	case strings.HasPrefix(kind, "response.") || object == "response":
		return OpenAIResponses
	case e.has("usageMetadata"):
		return Gemini
	case usage.has("inputTokens") || usage.has("outputTokens"):
		return Bedrock
	case strings.HasPrefix(object, "chat.completion") || usage.has("prompt_tokens") || usage.has("completion_tokens"):
		return OpenAIChat
	case e.has("prompt_eval_count") || e.has("eval_count") || e.has("done"):
		return Ollama
	}
	return ""
}

// read updates c by an event, and returns the name of the model if the event has it.
func (c *counts) read(f Format, e members) (model string) {
	usage := e.object("usage")
	model = e.text("model")
	switch f {
	case OpenAIChat:
		c.inclusive = true
		details := usage.object("prompt_tokens_details")
		c.input.read(usage["prompt_tokens"])
		c.cached.read(details["cached_tokens"])
		c.write.read(details["cache_write_tokens"])
		c.output.read(usage["completion_tokens"])
		c.complete = c.complete || usage != nil
	case OpenAIResponses:
		c.inclusive = true
		if inner := e.object("response"); inner != nil {
			usage, model = inner.object("usage"), inner.text("model")
		}
		details := usage.object("input_tokens_details")
		c.input.read(usage["input_tokens"])
		c.cached.read(details["cached_tokens"])
		c.write.read(details["cache_write_tokens"])
		c.output.read(usage["output_tokens"])
		c.complete = c.complete || usage != nil
	case Anthropic:
		if inner := e.object("message"); inner != nil {
			c.anthropic(inner.object("usage"))
			return inner.text("model")
		}
		c.anthropic(usage)
		c.complete = c.complete || usage != nil
	case Gemini:
		c.inclusive = true
		usage = e.object("usageMetadata")
		c.input.read(usage["promptTokenCount"])
		c.cached.read(usage["cachedContentTokenCount"])
		c.tools.read(usage["toolUsePromptTokenCount"])
		c.output.read(usage["candidatesTokenCount"])
		c.thoughts.read(usage["thoughtsTokenCount"])
		c.complete = c.complete || usage != nil
		model = e.text("modelVersion")
	case Bedrock:
		c.input.read(usage["inputTokens"])
		c.cached.read(usage["cacheReadInputTokens"])
		c.write.read(usage["cacheWriteInputTokens"])
		c.output.read(usage["outputTokens"])
		c.complete = c.complete || usage != nil
	case Ollama:
		c.input.read(e["prompt_eval_count"])
		c.output.read(e["eval_count"])
		c.complete = c.complete || string(e["done"]) == "true"
	}
	return model
}

// anthropic reads the usage of a message. Writes to the cache for an hour are part of all writes.
func (c *counts) anthropic(usage members) {
	c.input.read(usage["input_tokens"])
	c.cached.read(usage["cache_read_input_tokens"])
	c.write.read(usage["cache_creation_input_tokens"])
	c.write1h.read(usage.object("cache_creation")["ephemeral_1h_input_tokens"])
	c.output.read(usage["output_tokens"])
}

// usage returns the normalized counts.
func (c *counts) usage() (u Usage, err error) {
	u = Usage{Input: c.input.n, Cached: c.cached.n, CacheWrite: c.write.n, Output: min(c.output.n+c.thoughts.n, MaxTokens)}
	if c.inclusive {
		u.Cached = min(u.Cached, u.Input)
		u.CacheWrite = min(u.CacheWrite, u.Input-u.Cached)
		u.Input -= u.Cached + u.CacheWrite
	}
	u.CacheWrite1h = min(c.write1h.n, MaxTokens)
	u.CacheWrite = max(0, u.CacheWrite-u.CacheWrite1h)
	u.Input = min(u.Input+c.tools.n, MaxTokens)
	for _, one := range []*count{&c.input, &c.cached, &c.write, &c.write1h, &c.tools, &c.output, &c.thoughts} {
		if one.bad {
			return u, ErrBadUsage
		}
	}
	if !c.complete || !c.input.set && !c.output.set {
		return u, ErrNoUsage
	}
	return u, nil
}

// mayCount reports whether an event may have counts. Most events of a stream have none.
func mayCount(text []byte) bool {
	return bytes.Contains(text, []byte(`sage`)) || bytes.Contains(text, []byte(`eval_count`)) || bytes.Contains(text, []byte(`"done"`))
}

// PathModel returns the model that the path of a request names, as for Bedrock and Gemini, or "".
// Bedrock's responses have no model.
func PathModel(path string) string {
	for _, form := range [...][2]string{{"/model/", "/"}, {"/models/", ":"}} {
		if _, rest, ok := strings.Cut(path, form[0]); ok {
			if i := strings.LastIndex(rest, form[1]); i > 0 {
				return rest[:i]
			}
		}
	}
	return ""
}
