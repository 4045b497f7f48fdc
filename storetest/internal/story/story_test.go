package story_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/storetest/internal/model"
	"github.com/floodweir/weir/storetest/internal/story"
)

func TestParse(t *testing.T) {
	const text = `# a comment
start 2026-03-01T12:00:00.000001Z
limit a: 3/s
limit b: 5/m fixed_window

at 1s            take "a b" 2 under b -> ok remaining 3 reset 1m
+0               reserve u 1 id "x y" ttl 1m30s
-500ms           return u 1 charged -1us
at 2026-03-01T13:00:00Z  all -> denied
| take u 1 under b from a,b carry additive -> denied retry never
| cancel u id r -> error no-reservation
`
	s, err := story.Parse("x.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC)
	if s.Start != start.UnixMicro() || len(s.Steps) != 4 {
		t.Fatalf("start %d with %d steps, want %d with 4", s.Start, len(s.Steps), start.UnixMicro())
	}
	first := s.Steps[0].Asks[0]
	if r := first.Request; r.Key != "a b" || r.N != 2 || r.Limit.String() != "5/m fixed_window" || s.Steps[0].Now != s.Start+1e6 {
		t.Errorf("step 1 = %+v at %d", r, s.Steps[0].Now)
	}
	if want := (story.Answer{OK: true, Granted: 2, Remaining: 3, Reset: time.Minute}); first.Want != want {
		t.Errorf("answer 1 = %+v, want %+v", first.Want, want)
	}
	if r := s.Steps[1].Asks[0].Request; r.ID != "x y" || r.TTL != 90*time.Second || r.Limit.String() != "3/s burst 3" {
		t.Errorf("step 2 = %+v", r)
	}
	if r := s.Steps[2].Asks[0].Request; r.At != time.UnixMicro(s.Start-1) || s.Steps[2].Now != s.Start+500_000 {
		t.Errorf("step 3 = %+v at %d", r, s.Steps[2].Now)
	}
	all := s.Steps[3]
	if !all.Batch || all.Line != 9 || len(all.Asks) != 2 || all.Now != time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC).UnixMicro() {
		t.Fatalf("step 4 = %+v", all)
	}
	if a := all.Asks[0]; len(a.Request.From) != 2 || a.Request.Carry != weir.CarryAdditive || a.Want.Retry != weir.Never || a.Line != 10 {
		t.Errorf("member 1 = %+v", a)
	}
	if a := all.Asks[1]; a.Want.Err != "no-reservation" || a.Request.Verb != weir.Cancel {
		t.Errorf("member 2 = %+v", a)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"at 0s take u 1", "x.txt:1: want a limit line"},
		{"limit a: 3/s\nlimit a: 3/s", "x.txt:2: limit a is there already"},
		{"limit a: 3/1fortnight", "x.txt:1: weir: limit"},
		{"limit a 3/s", `x.txt:1: want "limit NAME: TEXT"`},
		{"limit a: 3/s\n\nnow take u 1", "x.txt:3: want a line that begins with at, + or -"},
		{"limit a: 3/s\nat 0.5us take u 1", "x.txt:2: want whole microseconds"},
		{"limit a: 3/s\nat noon take u 1", "x.txt:2: want a span such as"},
		{"limit a: 3/s\nat 2300-01-01T00:00:00Z take u 1", "x.txt:2: want whole microseconds between 1970 and 2200"},
		{"limit a: 3/s\n-100000d take u 1", "x.txt:2: want a span"},
		{"limit a: 3/s\n-40000d take u 1", "x.txt:2: want whole microseconds between"},
		{"limit a: 3/s\n+0 grab u 1", "x.txt:2: want a verb and a key"},
		{"limit a: 3/s\n+0 take u", "x.txt:2: want a number of tokens after the key"},
		{"limit a: 3/s\n+0 take u many", `x.txt:2: want a number of tokens after the key, got "many"`},
		{"limit a: 3/s\n+0 take u 1 under b", "x.txt:2: want the name of a limit above"},
		{"limit a: 3/s\n+0 take u 1 under", `x.txt:2: want a value after "under"`},
		{"limit a: 3/s\n+0 take u 1 for 3s", "x.txt:2: want under, id, ttl"},
		{"limit a: 3/s\n+0 take u 1 carry away", "x.txt:2: want carry"},
		{"limit a: 3/s\n+0 take \"u 1", "x.txt:2: want a closed quotation"},
		{"limit a: 3/s\n+0 take u 1 -> yes", "x.txt:2: want ok, denied or error"},
		{"limit a: 3/s\n+0 take u 1 -> ok remaining", `x.txt:2: want a value after "remaining"`},
		{"limit a: 3/s\n+0 take u 1 -> ok remaining -1", "x.txt:2: want remaining and a number"},
		{"limit a: 3/s\n+0 take u 1 -> ok reset soon", "x.txt:2: want a span"},
		{"limit a: 3/s\n+0 take u 1 -> ok left 3", "x.txt:2: want granted, remaining"},
		{"limit a: 3/s\n+0 take u 1 -> error", "x.txt:2: want one word after error"},
		{"limit a: 3/s\n| take u 1", "x.txt:2: want a request after a bar only below"},
		{"limit a: 3/s\n-> ok", "x.txt:2: want a request before the arrow"},
		{"limit a: 3/s\n+0 take u 1\nstart 2026-01-01T00:00:00Z", "x.txt:3: want one start"},
	} {
		if _, err := story.Parse("x.txt", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("Parse(%q): error %v, want %s…", c.text, err, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"}, {time.Microsecond, "1µs"}, {time.Minute, "1m"}, {time.Hour, "1h"}, {90 * time.Minute, "1h30m"},
		{time.Hour + time.Second, "1h0m1s"}, {24 * time.Hour, "1d"}, {36 * time.Hour, "1d12h"},
		{24*time.Hour + time.Millisecond, "1d1ms"}, {-time.Second, "-1s"}, {weir.Never, "never"}, {10 * time.Minute, "10m"},
	} {
		got := story.Span(c.d)
		back, err := story.ParseSpan(got)
		if got != c.want || back != c.d || err != nil {
			t.Errorf("Span(%d) = %q, read back as %d, %v, want %q", c.d, got, back, err, c.want)
		}
	}
	for _, text := range []string{"", "-", "--1s", "1", "d", "1dd", "1d-1s", "+1s", "-never", "70000d", "1e3s"} {
		if d, err := story.ParseSpan(text); err == nil {
			t.Errorf("ParseSpan(%q) = %v, want an error", text, d)
		}
	}
}

// TestPlayFindsWhatIsWrong checks that each part of an answer counts.
func TestPlayFindsWhatIsWrong(t *testing.T) {
	const before = "limit a: 2/s\nat 0s take u 2 -> ok reset 1s\n"
	for _, c := range []struct {
		line string
		want int
	}{
		{"+0 take u 1 -> denied retry 500ms reset 1s", 0},
		{"+0 take u 1 -> denied retry 500ms", 1},
		{"+0 take u 1 -> denied retry 499.999ms reset 1s", 1},
		{"+0 take u 1 -> denied remaining 1 retry 500ms reset 1s", 1},
		{"+0 take u 1 -> ok reset 1s", 1},
		{"+0 take u 1 -> error invalid", 1},
		{"+0 take u 1", 1},
		{"+0 all -> denied\n| take u 1 -> denied retry 500ms reset 1s", 0},
		{"+0 all -> ok\n| take u 1 -> denied retry 500ms reset 1s", 1},
		{"+0 all -> denied\n| take u 1 -> ok reset 1s", 1},
		{"+0 all -> error invalid\n| take u -1", 0},
		{"+0 all -> denied\n| take u -1", 1},
		{"+0 all -> error full\n| take u -1", 1},
	} {
		s, err := story.Parse("x", before+c.line)
		if err != nil {
			t.Fatal(err)
		}
		m, wrong := model.New(s.Start), 0
		s.Play(m, m.SetNow, func(int, string) { wrong++ })
		if wrong != c.want {
			t.Errorf("%q: %d lines wrong, want %d", c.line, wrong, c.want)
		}
	}
}

// TestRewrite checks that it changes answers and nothing else, and then nothing.
func TestRewrite(t *testing.T) {
	const text = "# -> not an arrow\nlimit a: 2/s\n\nat 0s   take \"x -> y\" 1   -> denied  \n+0 all\n| take u 3 # here\n"
	text2 := strings.Replace(text, " # here", "", 1)
	s, err := story.Parse("x", text2)
	if err != nil {
		t.Fatal(err)
	}
	m := model.New(s.Start)
	want := "# -> not an arrow\nlimit a: 2/s\n\n" +
		"at 0s   take \"x -> y\" 1 -> ok remaining 1 reset 500ms\n" +
		"+0 all                  -> denied\n" +
		"| take u 3              -> denied remaining 2 retry never\n"
	got := s.Rewrite(m, m.SetNow)
	if got != want {
		t.Errorf("Rewrite =\n%s\nwant\n%s", got, want)
	}
	again, err := story.Parse("x", got)
	if err != nil {
		t.Fatal(err)
	}
	m = model.New(s.Start)
	if twice := again.Rewrite(m, m.SetNow); twice != got {
		t.Errorf("Rewrite of a rewritten story =\n%s", twice)
	}
}

// FuzzParse checks that no text makes the parser panic, and that a parsed story has one
// format.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../trace/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := story.Parse("x.txt", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.txt:") {
				t.Errorf("error without file and line: %v", err)
			}
			return
		}
		formatted := story.Format(s.Steps)
		again, err := story.Parse("formatted", formatted)
		if err != nil {
			t.Fatalf("%v in\n%s", err, formatted)
		}
		if twice := story.Format(again.Steps); twice != formatted {
			t.Errorf("formatted\n%s\nand again\n%s", formatted, twice)
		}
	})
}
