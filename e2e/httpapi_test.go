//go:build !onlyredis

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/internal/porttest"
	"github.com/floodweir/weir/policy"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// startAPI runs weir with only its HTTP listener and returns its URL.
func startAPI(t *testing.T, args ...string) string {
	t.Helper()
	api := porttest.Address(t)
	args = append(append([]string{"serve"}, args...), "--listen-http", api, "--listen-gateway", "off",
		"--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off")
	startProcess(t, programtest.Weir(t), args...)
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	return "http://" + api
}

// TestAPIDocument sends every example of the OpenAPI document to the program. An independent
// validator checks the responses against the document.
func TestAPIDocument(t *testing.T) {
	api := startAPI(t)
	res, err := http.Get(api + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	type content map[string]struct {
		Schema struct {
			Ref string `json:"$ref"`
		}
		Examples map[string]struct{ Value json.RawMessage }
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			RequestBody struct{ Content content }
			Responses   map[string]struct {
				Ref     string `json:"$ref"`
				Content content
			}
		}
		Components struct {
			Responses map[string]struct{ Content content }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("/openapi.json is of %q: %v", doc.OpenAPI, err)
	}
	loaded, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", loaded); err != nil {
		t.Fatal(err)
	}
	fits := func(what, ref string, data []byte) {
		t.Helper()
		s, err := c.Compile("openapi.json" + ref)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %s\n%v", what, data, err)
		}
	}
	asked := 0
	for _, path := range inOrder(string(text), doc.Paths) {
		op := doc.Paths[path]["post"]
		body := op.RequestBody.Content["application/json"]
		for _, name := range inOrder(string(text[bytes.Index(text, []byte(`"`+path+`"`)):]), body.Examples) {
			asked++
			question := body.Examples[name].Value
			fits(path+" "+name, body.Schema.Ref, question)
			status, media, answer := post(t, api+path, string(question))
			described := op.Responses[fmt.Sprint(status)]
			if described.Ref != "" {
				described.Content = doc.Components.Responses[described.Ref[strings.LastIndexByte(described.Ref, '/')+1:]].Content
			}
			if described.Content[media].Schema.Ref == "" {
				t.Errorf("%s %s = %d with %s, want a response that the document has", path, name, status, media)
				continue
			}
			fits(fmt.Sprintf("the answer to %s %s", path, name), described.Content[media].Schema.Ref, answer)
			if _, ok := described.Content[media].Examples[name]; !ok {
				t.Errorf("%s %s = %d, which is not the status of the example", path, name, status)
			}
		}
	}
	if asked < 20 {
		t.Errorf("asked %d examples, want all", asked)
	}
	report, err := json.Marshal(instances.Process{
		ID: "0123456789ABCDEF", Service: "shop", Since: time.Now(),
		Functions: []instances.Function{{Name: "pay", Limits: []string{"1/s"}, Mode: policy.Enforce, Protections: map[string]string{"breaker": "open"}, Calls: 0.5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	fits("the report of a program", "#/components/schemas/Program", report)
	var described []string
	for path, methods := range doc.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(described)
	if got := knownRoutes(t, api); !slices.Equal(got, described) {
		t.Errorf("the program serves\n%s\nand the document has\n%s", strings.Join(got, "\n"), strings.Join(described, "\n"))
	}
}

// knownRoutes returns the routes of the HTTP API that the error of an unknown path lists.
func knownRoutes(t *testing.T, api string) (all []string) {
	res, err := http.Get(api + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var p struct{ Detail string }
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	for list := range strings.SplitSeq(strings.TrimPrefix(p.Detail, "known paths: "), "; ") {
		method, paths, _ := strings.Cut(strings.Replace(list, "any method", "GET", 1), " ")
		for path := range strings.SplitSeq(paths, ", ") {
			if path != "/json" && path != "/healthcheck" { // of the gRPC interface
				all = append(all, method+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// inOrder returns the names of a map in their order in a text.
func inOrder[V any](text string, named map[string]V) []string {
	at := func(name string) int { return strings.Index(text, `"`+name+`": {`) }
	return slices.SortedFunc(maps.Keys(named), func(a, b string) int { return at(a) - at(b) })
}

// TestAPIIdempotency sends concurrent requests with one idempotency key to two processes.
// Redis is charged once; also in a cluster, where a decision takes several steps.
func TestAPIIdempotency(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) { idempotency(t, "redis://"+redistest.Start(t).Addr) })
	t.Run("cluster", func(t *testing.T) { idempotency(t, "redis+cluster://"+redistest.StartCluster(t).Addrs()) })
}

func idempotency(t *testing.T, store string) {
	processes := []string{startAPI(t, "--store", store, "--deadline", "5s"), startAPI(t, "--store", store, "--deadline", "5s")}
	const rounds, at = 10, 8
	type answer struct{ OK, Replayed bool }
	for round := range rounds {
		answers := make([]answer, at)
		var wg sync.WaitGroup
		for i := range at {
			wg.Go(func() {
				status, _, body := post(t, processes[i%2]+"/v1/take", `{"key":"k","limits":["1000/24h","500/24h"],"n":3}`, "Idempotency-Key", fmt.Sprintf("round-%d", round))
				if err := json.Unmarshal(body, &answers[i]); err != nil || status != http.StatusOK {
					t.Errorf("round %d: %d %s", round, status, body)
				}
			})
		}
		wg.Wait()
		fresh := 0
		for _, a := range answers {
			if !a.Replayed {
				fresh++
			}
			if !a.OK {
				t.Errorf("round %d: a denial", round)
			}
		}
		if fresh != 1 {
			t.Errorf("round %d: %d were charged, want 1", round, fresh)
		}
	}
	_, _, body := post(t, processes[0]+"/v1/peek", `{"key":"k","limit":"1000/24h"}`)
	if want := fmt.Sprintf(`"remaining":%d,`, 1000-3*rounds); !strings.Contains(string(body), want) {
		t.Errorf("in the end %s, want %s", body, want)
	}
	if status, _, body := post(t, processes[1]+"/v1/take", `{"key":"k","limit":"1000/24h"}`, "Idempotency-Key", "round-0"); status != http.StatusUnprocessableEntity {
		t.Errorf("another question under a key = %d %s, want 422", status, body)
	}
}
