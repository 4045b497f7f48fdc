package stream

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/floodweir/weir/budget"
)

// maxChoices bounds the choices and the items of a stream that are followed.
const maxChoices = 128

// state has what the last events of a stream depend on.
type state struct {
	format    budget.Format
	finished  bool // the model has ended the stream
	usageOnly bool // the last event had only the usage of chat completions

	id, model string
	created   json.Number
	choices   []int // that have begun and not ended
	calls     []int // choices or items with an incomplete call of a tool
	response  map[string]json.RawMessage
	sequence  int64
	started   bool
	block     int // of content that is open, or -1
	generate  bool
}

// An event has the members of events of all formats.
type event struct {
	Type   string `json:"type"`
	Object string `json:"object"`

	// Chat completions.
	ID      string      `json:"id"`
	Created json.Number `json:"created"`
	Model   string      `json:"model"`
	Choices *[]struct {
		Index int `json:"index"`
		Delta struct {
			Calls []json.RawMessage `json:"tool_calls"`
			Call  json.RawMessage   `json:"function_call"`
		} `json:"delta"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`

	// Responses.
	Response json.RawMessage `json:"response"`
	Sequence *int64          `json:"sequence_number"`
	Output   int             `json:"output_index"`
	Item     struct {
		Type string `json:"type"`
	} `json:"item"`

	// Messages.
	Index int `json:"index"`
	Block struct {
		Type string `json:"type"`
	} `json:"content_block"`

	// Gemini.
	Candidates json.RawMessage `json:"candidates"`
	Version    string          `json:"modelVersion"`

	// Ollama.
	Done       *bool           `json:"done"`
	OllamaTime json.RawMessage `json:"created_at"`
}

// read updates s by the data of an event.
func (s *state) read(data []byte) {
	s.usageOnly = false
	text := strings.TrimSpace(string(data))
	if text == "[DONE]" {
		s.finished = true
		return
	}
	var e event
	if len(text) == 0 || text[0] != '{' || json.Unmarshal([]byte(text), &e) != nil {
		return
	}
	if s.format == budget.Auto {
		s.format = e.format()
	}
	switch s.format {
	case budget.OpenAIChat:
		s.chat(&e)
	case budget.OpenAIResponses:
		s.responses(&e)
	case budget.Anthropic:
		s.messages(&e)
	case budget.Gemini:
		s.model = e.Version
	case budget.Ollama:
		s.model, s.generate = e.Model, len(e.Response) > 0
		s.finished = e.Done != nil && *e.Done
	}
}

// format recognizes the format of an event; Auto if it is unknown.
func (e *event) format() budget.Format {
	switch {
	case e.Object == "chat.completion.chunk" || e.Choices != nil:
		return budget.OpenAIChat
	case strings.HasPrefix(e.Type, "response."):
		return budget.OpenAIResponses
	case strings.HasPrefix(e.Type, "message_") || strings.HasPrefix(e.Type, "content_block_"):
		return budget.Anthropic
	case len(e.Candidates) > 0:
		return budget.Gemini
	case e.Done != nil:
		return budget.Ollama
	}
	return budget.Auto
}

func set(list []int, n int) []int {
	if len(list) >= maxChoices || slices.Contains(list, n) {
		return list
	}
	return append(list, n)
}

func unset(list []int, n int) []int {
	return slices.DeleteFunc(list, func(m int) bool { return m == n })
}

func (s *state) chat(e *event) {
	if e.ID != "" {
		s.id, s.created, s.model = e.ID, e.Created, e.Model
	}
	if e.Choices == nil {
		return
	}
	usage := len(e.Usage) > 0 && string(e.Usage) != "null"
	s.usageOnly = usage && len(*e.Choices) == 0
	s.finished = s.finished || s.usageOnly
	for _, c := range *e.Choices {
		s.choices = set(s.choices, c.Index)
		if len(c.Delta.Calls) > 0 || len(c.Delta.Call) > 0 && string(c.Delta.Call) != "null" {
			s.calls = set(s.calls, c.Index)
		}
		if c.Finish != nil {
			s.choices, s.calls = unset(s.choices, c.Index), unset(s.calls, c.Index)
		}
	}
}

func (s *state) responses(e *event) {
	if e.Sequence != nil {
		s.sequence = *e.Sequence + 1
	}
	switch e.Type {
	case "response.created", "response.in_progress":
		_ = json.Unmarshal(e.Response, &s.response)
	case "response.completed", "response.incomplete", "response.failed":
		s.finished = true
	case "response.output_item.added":
		if strings.HasSuffix(e.Item.Type, "_call") {
			s.calls = set(s.calls, e.Output)
		}
	case "response.output_item.done":
		s.calls = unset(s.calls, e.Output)
	}
}

func (s *state) messages(e *event) {
	switch e.Type {
	case "message_start":
		s.started, s.block = true, -1
	case "content_block_start":
		s.block = e.Index
		if strings.HasSuffix(e.Block.Type, "tool_use") {
			s.calls = set(s.calls, e.Index)
		}
	case "content_block_stop":
		s.block, s.calls = -1, unset(s.calls, e.Index)
	case "message_delta", "message_stop":
		s.finished = true
	}
}

// open reports whether a tool call is incomplete.
func (s *state) open() bool { return len(s.calls) > 0 }
