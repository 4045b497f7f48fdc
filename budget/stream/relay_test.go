package stream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/budget/stream"
)

const (
	sse    = "text/event-stream; charset=utf-8"
	ndjson = "application/x-ndjson"

	chat1    = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":null}` + "\n\n"
	chat2    = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m1","choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}` + "\n\n"
	chatStop = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	chatTool = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]},"finish_reason":null}]}` + "\n\n"
	chatUse  = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}` + "\n\n"
	done     = "data: [DONE]\n\n"

	created  = "event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"r1","status":"in_progress","incomplete_details":null,"output":[],"tools":[{"a":1}]}}` + "\n\n"
	text     = "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":4,"output_index":0,"delta":"a"}` + "\n\n"
	call     = "event: response.output_item.added\n" + `data: {"type":"response.output_item.added","sequence_number":5,"output_index":1,"item":{"type":"function_call"}}` + "\n\n"
	callDone = "event: response.output_item.done\n" + `data: {"type":"response.output_item.done","sequence_number":6,"output_index":1,"item":{"type":"function_call"}}` + "\n\n"

	start     = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"a1","model":"m1"}}` + "\n\n"
	block     = "event: content_block_start\n" + `data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}` + "\n\n"
	tool      = "event: content_block_start\n" + `data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use"}}` + "\n\n"
	blockStop = "event: content_block_stop\n" + `data: {"type":"content_block_stop","index":2}` + "\n\n"

	gemini = `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"modelVersion":"g"}` + "\n\n"
	ollama = `{"model":"o","created_at":"t","message":{"content":"a"},"done":false}` + "\n"
	oldest = `{"model":"o","created_at":"t","response":"a","done":false}` + "\n"

	comment = ": weir budget exhausted\n\n"
	chatEnd = comment + `data: {"choices":[{"delta":{},"finish_reason":"length","index":0}],"created":7,"id":"c1","model":"m1","object":"chat.completion.chunk"}` + "\n\n" + done
	chatErr = comment + `data: {"error":{"code":"budget_exhausted","message":"budget exhausted","param":null,"type":"insufficient_quota"}}` + "\n\n"
	msgErr  = comment + "event: error\n" + `data: {"error":{"message":"budget exhausted","type":"rate_limit_error"},"type":"error"}` + "\n\n"
)

// run sends text through a relay in pieces, and denies an extension after the given number of
// events. It returns what the client gets, and the number of extensions.
func run(t *testing.T, media, text string, piece, deny int, c stream.Config) (string, int) {
	t.Helper()
	events := 0
	fail := c.Request.Model == "fail"
	read := 0
	c.Read = func(p []byte) { read += len(p) }
	c.Extend = func() (bool, bool) { events++; return events != deny, fail }
	c.Usage = func() budget.Usage { return budget.Usage{Input: 3, Cached: 2, Output: 4} }
	r := stream.New(media, c)
	if r == nil {
		t.Fatalf("New(%s) = nil", media)
	}
	var got strings.Builder
	sent := 0
	for rest := text; rest != ""; {
		n := min(piece, len(rest))
		got.Write(r.Next([]byte(rest[:n])))
		sent, rest = sent+n, rest[n:]
	}
	got.Write(r.Close())
	if !r.Ended() && read != len(text) || r.Ended() != (events == deny) {
		t.Errorf("read %d of %d bytes, ended %t after %d events", read, len(text), r.Ended(), events)
	}
	return got.String(), events
}

// TestEnd checks the last events of each format, for any division into pieces.
func TestEnd(t *testing.T) {
	usage := budget.ModelRequest{Usage: true}
	for _, tc := range []struct {
		name, media, text string
		request           budget.ModelRequest
		deny              int
		want              string
	}{
		{"chat", sse, chat1 + chat1 + chat1 + done, budget.ModelRequest{}, 2, chat1 + chat1 + chatEnd},
		{"chat with usage", sse, chat1 + chat1, usage, 1, chat1 + strings.Replace(chatEnd, done, `data: {"choices":[],"created":7,"id":"c1","model":"m1","object":"chat.completion.chunk","usage":{"completion_tokens":4,"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":2},"total_tokens":9}}`+"\n\n"+done, 1)},
		{"two choices, one of which has ended", sse, chat1 + chat2 + chatStop + chat2, budget.ModelRequest{}, 3, chat1 + chat2 + chatStop + strings.Replace(chatEnd, `"index":0`, `"index":1`, 1)},
		{"a tool call of chat", sse, chat1 + chatTool + chat1, budget.ModelRequest{}, 2, chat1 + chatTool + chatErr},
		{"chat with an error", sse, chat1 + chat1, budget.ModelRequest{Model: "fail"}, 1, chat1 + chatErr},
		{"structured output", sse, chat1 + chat1, budget.ModelRequest{Structured: true}, 1, chat1 + chatErr},
		{"an unknown format", sse, "data: {}\n\ndata: {}\n\n", budget.ModelRequest{}, 1, "data: {}\n\n" + chatErr},
		{"responses", sse, created + text + text, budget.ModelRequest{}, 2, created + text + comment + "event: response.incomplete\n" +
			`data: {"response":{"id":"r1","incomplete_details":{"reason":"max_output_tokens"},"output":[],"status":"incomplete","tools":[{"a":1}],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":9}},"sequence_number":5,"type":"response.incomplete"}` + "\n\n"},
		{"a call of responses", sse, created + call + text, budget.ModelRequest{}, 2, created + call + comment + "event: error\n" +
			`data: {"code":"budget_exhausted","message":"budget exhausted","param":null,"sequence_number":6,"type":"error"}` + "\n\n"},
		{"a message", sse, start + block + block, budget.ModelRequest{}, 2, start + block + comment + "event: content_block_stop\n" + `data: {"index":2,"type":"content_block_stop"}` + "\n\n" +
			"event: message_delta\n" + `data: {"delta":{"stop_reason":"max_tokens","stop_sequence":null},"type":"message_delta","usage":{"output_tokens":4}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"},
		{"a tool of a message", sse, start + tool + block, budget.ModelRequest{}, 2, start + tool + msgErr},
		{"a message with an error", sse, start + block, budget.ModelRequest{Model: "fail"}, 1, start + msgErr},
		{"gemini", sse, gemini + gemini, budget.ModelRequest{}, 1, gemini + comment + `data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS","index":0}],"modelVersion":"g","usageMetadata":{"candidatesTokenCount":4,"promptTokenCount":5,"totalTokenCount":9}}` + "\n\n"},
		{"gemini with an error", sse, gemini + gemini, budget.ModelRequest{Model: "fail"}, 1, gemini + comment + `data: {"error":{"code":429,"message":"budget exhausted","status":"RESOURCE_EXHAUSTED"}}` + "\n\n"},
		{"ollama", ndjson, ollama + ollama, budget.ModelRequest{}, 1, ollama + `{"done":true,"done_reason":"length","eval_count":4,"message":{"content":"","role":"assistant"},"model":"o","prompt_eval_count":5}` + "\n"},
		{"ollama generate", ndjson, oldest + oldest, budget.ModelRequest{}, 1, oldest + `{"done":true,"done_reason":"length","eval_count":4,"model":"o","prompt_eval_count":5,"response":""}` + "\n"},
		{"ollama with an error", ndjson, ollama + ollama, budget.ModelRequest{Model: "fail"}, 1, ollama + `{"error":"budget exhausted"}` + "\n"},
	} {
		for _, piece := range []int{1, 7, 64, 1 << 20} {
			if got, _ := run(t, tc.media, tc.text, piece, tc.deny, stream.Config{Request: tc.request}); got != tc.want {
				t.Errorf("%s in pieces of %d:\n%s\nwant\n%s", tc.name, piece, got, tc.want)
			}
		}
	}
	// A call that is complete, or a block that is closed, is no reason for an error.
	if got, _ := run(t, sse, created+call+callDone+text, 99, 3, stream.Config{}); !strings.Contains(got, "response.incomplete") {
		t.Errorf("after a call: %s, want response.incomplete", got)
	}
	if got, _ := run(t, sse, start+tool+blockStop+block, 99, 3, stream.Config{}); !strings.HasSuffix(got, "message_stop\"}\n\n") || strings.Count(got, "event: content_block_stop") != 1 {
		t.Errorf("after a tool: %s, want message_stop", got)
	}
}

// TestWhole checks that streams that are not ended pass unchanged, and that nothing is extended
// after the model has ended the stream.
func TestWhole(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.sse")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	texts := []string{chat1 + chatStop + chatUse + done, strings.ReplaceAll(chat1+chatUse, "\n", "\r\n"), strings.ReplaceAll(chat1, "\n", "\r"), ": ping\n\n" + chat1, "data: x", chat1 + "data: {", "\n\n\n"}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		for _, piece := range []int{1, 5, 1 << 20} {
			if got, _ := run(t, sse, text, piece, -1, stream.Config{}); got != text {
				t.Errorf("got %q, want it unchanged: %q", got, text)
			}
			if got, _ := run(t, sse, text, piece, -1, stream.Config{HideUsage: true, Format: budget.Anthropic}); got != text {
				t.Errorf("with HideUsage: got %q, want it unchanged: %q", got, text)
			}
		}
	}
	for text, want := range map[string]int{chat1 + chatStop + chatUse + done: 2, start + block + `data: {"type":"message_delta"}` + "\n\n": 2, done: 0, ": ping\n\n": 0} {
		if _, n := run(t, sse, text, 10, -1, stream.Config{}); n != want {
			t.Errorf("%d extensions of %s, want %d", n, text, want)
		}
	}
	if stream.New("application/json", stream.Config{}) != nil || stream.New("", stream.Config{}) != nil {
		t.Error("a body is a stream")
	}
}

// TestHideUsage checks that only the event with the usage is removed.
func TestHideUsage(t *testing.T) {
	long := `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("a", 40000) + `"}}]}` + "\n\n"
	for text, want := range map[string]string{
		chat1 + chatStop + chatUse + done:                                             chat1 + chatStop + done,
		chat1 + long + chatUse + done + "data: x":                                     chat1 + long + done + "data: x",
		strings.ReplaceAll(chat1+chatUse+done, "\n", "\r\n"):                          strings.ReplaceAll(chat1, "\n", "\r\n") + "\n" + "data: [DONE]\r\n\r\n",
		`data: {"object":"chat.completion.chunk","choices":[],"usage":null}` + "\n\n": `data: {"object":"chat.completion.chunk","choices":[],"usage":null}` + "\n\n",
	} {
		for _, piece := range []int{1, 11, 1 << 20} {
			got, _ := run(t, sse, text, piece, -1, stream.Config{HideUsage: true})
			if strings.ReplaceAll(got, "\r\n\n", "\r\n") != strings.ReplaceAll(want, "\r\n\n", "\r\n") {
				t.Errorf("%.300q in pieces of %d, want %.300q", got, piece, want)
			}
		}
	}
	if got, _ := run(t, sse, chat1+chat1+chatUse, 10, 2, stream.Config{HideUsage: true}); got != chat1+chat1+chatEnd {
		t.Errorf("ended: %s, want both events and the end", got)
	}
}

// FuzzRelay checks that a stream in pieces is that at once, and that its end begins after an event.
func FuzzRelay(f *testing.F) {
	f.Add(chat1+chatTool+chatUse+done, 3, 2, true)
	f.Add(created+call, 1, 1, false)
	f.Add(start+tool+"\r\r\n\n\r", 2, 3, false)
	f.Fuzz(func(t *testing.T, text string, piece, deny int, hide bool) {
		piece = max(1, min(piece, 1<<10))
		c := stream.Config{HideUsage: hide}
		at, events := run(t, sse, text, 1<<20, deny, c)
		got, n := run(t, sse, text, piece, deny, c)
		if got != at || n != events {
			t.Fatalf("%q in pieces of %d: %q, at once %q", text, piece, got, at)
		}
		if !hide {
			if before, _, ended := strings.Cut(at, comment); events == deny && ended && !strings.HasPrefix(text, before) {
				t.Fatalf("%q is no beginning of %q", before, text)
			}
		}
	})
}
