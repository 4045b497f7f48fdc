package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/policy"
)

// described is an API of a frozen clock with the policy of the examples, and its
// document as it serves it.
func described(t *testing.T) (*httpapi.API, openAPIDocument) {
	t.Helper()
	store, _ := frozen(t)
	login, err := policy.New(policy.Config{
		Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("5/m burst 3")},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(login)
	if err != nil {
		t.Fatal(err)
	}
	a := api(t, httpapi.Config{
		Store: store, Policies: set, Auth: http.NotFoundHandler(),
		Extra: map[string]http.Handler{
			"GET /v1/published": http.NotFoundHandler(), "GET /v1/published/adjustments": http.NotFoundHandler(), "POST /v1/programs": http.NotFoundHandler(),
			"POST /json": http.NotFoundHandler(), "GET /healthcheck": http.NotFoundHandler(),
		},
	})
	w := ask(a, "GET", "/openapi.json", "")
	var d openAPIDocument
	if err := json.Unmarshal(w.Body.Bytes(), &d.root); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("/openapi.json = %d %s: %v", w.Code, w.Header(), err)
	}
	return a, d
}

// TestOpenAPIRoutes checks that the document has the routes that there are, and no
// others.
func TestOpenAPIRoutes(t *testing.T) {
	a, d := described(t)
	var described []string
	for path, item := range d.at("paths").(map[string]any) {
		for method := range item.(map[string]any) {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(described)
	var p struct{ Detail string }
	if err := json.Unmarshal(ask(a, "GET", "/", "").Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	var known []string
	for list := range strings.SplitSeq(strings.TrimPrefix(p.Detail, "known paths: "), "; ") {
		method, paths, _ := strings.Cut(strings.Replace(list, "any method", "GET", 1), " ")
		for path := range strings.SplitSeq(paths, ", ") {
			if path != "/json" && path != "/healthcheck" { // not of this API
				known = append(known, method+" "+path)
			}
		}
	}
	slices.Sort(known)
	if !slices.Equal(described, known) {
		t.Errorf("the document has\n%s\nand the API\n%s", strings.Join(described, "\n"), strings.Join(known, "\n"))
	}
	for _, r := range known {
		method, path, _ := strings.Cut(r, " ")
		extra := path == "/v1/auth" || strings.HasPrefix(path, "/v1/published") || path == "/v1/programs" // which this test does not serve
		if w := ask(a, method, path, ""); !extra && w.Code == 404 {
			t.Errorf("%s = 404: it is not served", r)
		}
		if w := ask(a, "PATCH", path, ""); !extra && (w.Code != 405 || !strings.HasPrefix(w.Header().Get("Allow"), method)) {
			t.Errorf("PATCH %s = %d with Allow: %s, want 405 with %s", path, w.Code, w.Header().Get("Allow"), method)
		}
	}
}

// TestOpenAPIExamples asks every example of the document, in its order, and gets the
// answer that the document says, which fits its schema.
func TestOpenAPIExamples(t *testing.T) {
	a, d := described(t)
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	paths := slices.SortedFunc(maps.Keys(d.at("paths").(map[string]any)), func(p, q string) int {
		return strings.Index(string(text), fmt.Sprintf("    %q: {", p)) - strings.Index(string(text), fmt.Sprintf("    %q: {", q))
	})
	asked := 0
	for _, path := range paths {
		content, _ := d.at("paths", path, "post", "requestBody", "content", "application/json").(map[string]any)
		if content == nil {
			continue
		}
		examples, _ := content["examples"].(map[string]any) // none of what this test does not serve
		responses := d.at("paths", path, "post", "responses").(map[string]any)
		for _, name := range inOrder(string(text), path, examples) {
			asked++
			value := examples[name].(map[string]any)["value"]
			if wrong := d.check(name, content["schema"], value); wrong != nil {
				t.Errorf("%s: the example %s does not fit its schema: %s", path, name, strings.Join(wrong, "; "))
			}
			body, _ := json.Marshal(value)
			w := ask(a, "POST", path, string(body))
			media := w.Header().Get("Content-Type")
			response, _ := d.resolve(responses[fmt.Sprint(w.Code)]).(map[string]any)
			answers, _ := openAPIDocument{response}.at("content", media).(map[string]any)
			if answers == nil {
				t.Errorf("%s: %s = %d with %s, which the document does not have", path, name, w.Code, media)
				continue
			}
			var got any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if wrong := d.check(name, answers["schema"], got); wrong != nil {
				t.Errorf("%s: the answer to %s does not fit its schema: %s\n%s", path, name, strings.Join(wrong, "; "), w.Body)
			}
			if want := (openAPIDocument{answers}).at("examples", name, "value"); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the document does not have the answer to %s: %s", path, name, w.Body)
			}
		}
	}
	if asked < 20 {
		t.Errorf("asked %d examples, want all", asked)
	}
}

// inOrder are the names of the examples of a path as the document has them.
func inOrder(text, path string, examples map[string]any) []string {
	from := strings.Index(text, fmt.Sprintf("    %q: {", path))
	at := func(name string) int { return strings.Index(text[from:], fmt.Sprintf("%q: {", name)) }
	return slices.SortedFunc(maps.Keys(examples), func(a, b string) int { return at(a) - at(b) })
}

// TestOpenAPIProblems checks that every answer from 400 is described as a problem, but for /readyz.
func TestOpenAPIProblems(t *testing.T) {
	_, d := described(t)
	schema := map[string]any{"$ref": "#/components/schemas/Problem"}
	n := 0
	for path, item := range d.at("paths").(map[string]any) {
		for method := range item.(map[string]any) {
			for status, r := range d.at("paths", path, method, "responses").(map[string]any) {
				if status < "400" || path == "/readyz" {
					continue
				}
				n++
				content := openAPIDocument{d.resolve(r)}
				if got := content.at("content", "application/problem+json", "schema"); !reflect.DeepEqual(got, schema) {
					t.Errorf("%s %s: %s is described as %v, want a problem", method, path, status, got)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("looked at %d answers", n)
	}
}
