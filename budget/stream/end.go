package stream

import (
	"encoding/json"
	"net/http"

	"github.com/floodweir/weir/budget"
)

const (
	// comment begins the last events of a stream. Clients ignore it.
	comment = ": weir budget exhausted\n\n"
	message = "budget exhausted"
)

type object = map[string]any

// events appends server-sent events with JSON as data. The name of an event is its type in named.
func events(named bool, list ...object) []byte {
	b := []byte(comment)
	for _, o := range list {
		if named {
			b = append(append(append(b, "event: "...), o["type"].(string)...), '\n')
		}
		text, _ := json.Marshal(o) // maps of texts and numbers always marshal
		b = append(append(append(b, "data: "...), text...), "\n\n"...)
	}
	return b
}

func line(o object) []byte {
	text, _ := json.Marshal(o)
	return append(text, '\n')
}

// finish returns the events of a stream that reached its maximum of tokens. A stream whose first
// event is missing ends with an error. withUsage adds the usage to chat completions.
func (s *state) finish(u budget.Usage, withUsage, lines bool) []byte {
	input := u.Input + u.Cached + u.CacheWrite + u.CacheWrite1h
	switch {
	case lines && s.format == budget.Ollama:
		last := object{"model": s.model, "done": true, "done_reason": "length", "prompt_eval_count": input, "eval_count": u.Output}
		if s.generate {
			last["response"] = ""
		} else {
			last["message"] = object{"role": "assistant", "content": ""}
		}
		return line(last)
	case lines:
	case s.format == budget.OpenAIChat && s.id != "":
		return s.finishChat(object{
			"prompt_tokens": input, "completion_tokens": u.Output, "total_tokens": input + u.Output,
			"prompt_tokens_details": object{"cached_tokens": u.Cached},
		}, withUsage)
	case s.format == budget.OpenAIResponses && s.response != nil:
		response := object{}
		for name, value := range s.response {
			response[name] = value
		}
		response["status"], response["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
		response["usage"] = object{
			"input_tokens": input, "input_tokens_details": object{"cached_tokens": u.Cached}, "output_tokens": u.Output,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": input + u.Output,
		}
		return events(true, object{"type": "response.incomplete", "sequence_number": s.sequence, "response": response})
	case s.format == budget.Anthropic && s.started:
		var list []object
		if s.block >= 0 {
			list = append(list, object{"type": "content_block_stop", "index": s.block})
		}
		return events(true, append(list,
			object{"type": "message_delta", "delta": object{"stop_reason": "max_tokens", "stop_sequence": nil}, "usage": object{"output_tokens": u.Output}},
			object{"type": "message_stop"},
		)...)
	case s.format == budget.Gemini:
		return events(false, object{
			"candidates":    []object{{"index": 0, "content": object{"role": "model", "parts": []object{{"text": ""}}}, "finishReason": "MAX_TOKENS"}},
			"usageMetadata": object{"promptTokenCount": input, "candidatesTokenCount": u.Output, "totalTokenCount": input + u.Output},
			"modelVersion":  s.model,
		})
	}
	return s.fail(lines)
}

func (s *state) finishChat(usage object, withUsage bool) []byte {
	created := s.created
	if created == "" {
		created = "0"
	}
	chunk := func(choices []object) object {
		return object{"id": s.id, "object": "chat.completion.chunk", "created": created, "model": s.model, "choices": choices}
	}
	choices := []object{}
	for _, index := range s.choices {
		choices = append(choices, object{"index": index, "delta": object{}, "finish_reason": "length"})
	}
	var list []object
	if len(choices) > 0 {
		list = append(list, chunk(choices))
	}
	if withUsage {
		last := chunk([]object{})
		last["usage"] = usage
		list = append(list, last)
	}
	return append(events(false, list...), "data: [DONE]\n\n"...)
}

// fail returns the event of an error.
func (s *state) fail(lines bool) []byte {
	switch {
	case lines:
		return line(object{"error": message})
	case s.format == budget.OpenAIResponses:
		return events(true, object{"type": "error", "code": "budget_exhausted", "message": message, "param": nil, "sequence_number": s.sequence})
	case s.format == budget.Anthropic:
		return events(true, object{"type": "error", "error": object{"type": "rate_limit_error", "message": message}})
	case s.format == budget.Gemini:
		return events(false, object{"error": object{"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}})
	}
	return events(false, exhausted)
}

// exhausted is the error of OpenAI.
var exhausted = object{"error": object{"message": message, "type": "insufficient_quota", "param": nil, "code": "budget_exhausted"}}

// Refuse responds with status 429 in place of a response that cannot be followed, before its first byte.
// It removes the fields that describe its body.
func Refuse(w http.ResponseWriter) {
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Disposition", "Etag", "Last-Modified", "Cache-Control", "Trailer"} {
		w.Header().Del(name)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false") // SDKs of language models retry 429 otherwise
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(line(exhausted))
}
