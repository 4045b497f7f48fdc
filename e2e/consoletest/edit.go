package consoletest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

const exampleText = `# Published by the deployment of the shop.
store: redis://redis:6379/0

policies:
  - name: login              # brute force
    match: request.path == "/login"
    key: [client.ip]
    limits: [5/m]

  - name: api-per-client
    match: request.path.startsWith("/api/")
    key: [client.ip]
    limits: [10/s burst 20, 5000/24h]

  - name: uploads
    match: request.method == "POST" && request.path.startsWith("/files/")
    key: [header:x-tenant]
    limits: [3/s burst 6]
    percent: 50
`

type draftRequest struct {
	Text, Base, Reason, Policy, Field string
	Value                             any
	Version                           int
}

func (q *draftRequest) UnmarshalJSON(b []byte) error {
	var any map[string]any
	if err := json.Unmarshal(b, &any); err != nil {
		return err
	}
	text := func(name string) string {
		if any[name] == nil {
			return ""
		}
		return fmt.Sprint(any[name])
	}
	*q = draftRequest{Text: text("text"), Base: text("base"), Reason: text("reason"), Policy: text("policy"), Field: text("field"), Value: any["value"]}
	q.Version, _ = strconv.Atoi(text("version"))
	return nil
}

func editRoutes(f *Fake) {
	on := func(path string, h func(w http.ResponseWriter, q draftRequest)) {
		f.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var q draftRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				refuse(w, 400, entry{"detail": err.Error()})
				return
			}
			h(w, q)
		})
	}
	f.mux.HandleFunc("GET /v1/text", func(w http.ResponseWriter, _ *http.Request) {
		if f.Role == "read" {
			refuse(w, 403, entry{"detail": "role: got read, want operate"})
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		reply(w, entry{"version": f.version, "text": f.text, "source": fmt.Sprintf("version %d in the store", f.version), "scope": "store"})
	})
	f.mux.HandleFunc("GET /v1/versions", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		reply(w, entry{"versions": f.versions})
	})
	f.mux.HandleFunc("GET /v1/versions/{n}", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, v := range f.versions {
			if fmt.Sprint(v["version"]) == r.PathValue("n") {
				text := f.text
				if v["version"] != f.version {
					text = strings.Replace(exampleText, "[5/m]", fmt.Sprintf("[%d/m]", v["version"].(int)-36), 1)
				}
				reply(w, entry{"version": v["version"], "at": v["at"], "by": v["by"], "note": v["note"], "text": text})
				return
			}
		}
		refuse(w, 404, entry{"detail": "no such version"})
	})
	on("/v1/draft", f.draft)
	on("/v1/draft/set", func(w http.ResponseWriter, q draftRequest) {
		f.edits.RLock()
		defer f.edits.RUnlock()
		reply(w, entry{"text": set(q)})
	})
	on("/v1/apply", f.apply)
	on("/v1/rollback", func(w http.ResponseWriter, q draftRequest) {
		reply(w, entry{"version": f.Publish("ops", q.Reason, strings.Replace(exampleText, "[5/m]", fmt.Sprintf("[%d/m]", q.Version-36), 1))})
	})
}

var limitLine = regexp.MustCompile(`^(\s+limits: \[)(.*)\]`)

// faults finds limits without a period.
func faults(text string) []entry {
	list := []entry{}
	for i, line := range strings.Split(text, "\n") {
		if m := limitLine.FindStringSubmatch(line); m != nil {
			for one := range strings.SplitSeq(m[2], ",") {
				if !regexp.MustCompile(`^\d+/\d*[smhd]`).MatchString(strings.TrimSpace(one)) {
					list = append(list, entry{"line": i + 1, "column": len(m[1]) + 1, "field": "limits", "value": strings.TrimSpace(one), "expected": "COUNT/PERIOD",
						"message": fmt.Sprintf("limits: got %q, want COUNT/PERIOD", strings.TrimSpace(one))})
				}
			}
		}
	}
	return list
}

func (f *Fake) draft(w http.ResponseWriter, q draftRequest) {
	f.mu.Lock()
	base := f.text
	f.mu.Unlock()
	bad := faults(q.Text)
	reply(w, entry{"valid": len(bad) == 0, "faults": bad, "diff": diff(base, q.Text), "policies": model(q.Text)})
}

// diff compares line by line from both ends.
func diff(a, b string) []entry {
	x, y := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	list := []entry{}
	head := 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		list = append(list, entry{"op": " ", "text": x[head]})
		head++
	}
	tail := 0
	for tail < min(len(x), len(y))-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	for _, l := range x[head : len(x)-tail] {
		list = append(list, entry{"op": "-", "text": l})
	}
	for _, l := range y[head : len(y)-tail] {
		list = append(list, entry{"op": "+", "text": l})
	}
	for _, l := range x[len(x)-tail:] {
		list = append(list, entry{"op": " ", "text": l})
	}
	return list
}

// model reads the example's simple form of YAML.
func model(text string) []entry {
	list := []entry{}
	for block := range strings.SplitSeq(text, "  - name: ") {
		name, rest, ok := strings.Cut(block, "\n")
		if !ok || strings.HasPrefix(block, "#") {
			continue
		}
		name, _, _ = strings.Cut(name, "#")
		e := entry{"name": strings.TrimSpace(name), "mode": "enforce", "percent": 100}
		for line := range strings.SplitSeq(rest, "\n") {
			field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch field {
			case "match", "mode":
				e[field] = value
			case "percent":
				e[field], _ = strconv.Atoi(value)
			case "key", "limits":
				all := []string{}
				for one := range strings.SplitSeq(strings.Trim(value, "[]"), ",") {
					all = append(all, strings.TrimSpace(one))
				}
				e[field] = all
			}
		}
		list = append(list, e)
	}
	return list
}

// set replaces the value of one field of a policy.
func set(q draftRequest) string {
	value := fmt.Sprint(q.Value)
	if all, ok := q.Value.([]any); ok {
		parts := []string{}
		for _, one := range all {
			parts = append(parts, fmt.Sprint(one))
		}
		value = "[" + strings.Join(parts, ", ") + "]"
	}
	lines := strings.Split(q.Text, "\n")
	in := -1
	for i, line := range lines {
		if name, ok := strings.CutPrefix(line, "  - name: "); ok {
			name, _, _ = strings.Cut(name, "#")
			if in >= 0 {
				break
			}
			if strings.TrimSpace(name) == q.Policy {
				in = i
			}
		} else if in >= 0 && strings.HasPrefix(strings.TrimSpace(line), q.Field+":") {
			lines[i] = "    " + q.Field + ": " + value
			return strings.Join(lines, "\n")
		}
	}
	if in >= 0 {
		lines[in] += "\n    " + q.Field + ": " + value
	}
	return strings.Join(lines, "\n")
}

func (f *Fake) apply(w http.ResponseWriter, q draftRequest) {
	if f.Conflict {
		f.Conflict = false
		f.Publish("mei", "faster search", strings.Replace(exampleText, "[3/s burst 6]", "[4/s burst 8]", 1))
	}
	f.mu.Lock()
	version, text := f.version, f.text
	f.mu.Unlock()
	bad := faults(q.Text)
	switch {
	case fmt.Sprint(version) != q.Base:
		refuse(w, 409, entry{"detail": "another version was published", "current": version, "text": text})
	case len(bad) > 0:
		refuse(w, 422, entry{"detail": "the text is not valid", "faults": bad})
	default:
		reply(w, entry{"version": f.Publish("ops", q.Reason, q.Text), "scope": "store"})
	}
}
