package run

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
)

// send sends a request to the admin interface and decodes the response into a map.
func (s *served) send(t *testing.T, method, path string, body any) (int, map[string]any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(method, s.admin.url()+path, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s %s = %d %s", method, path, res.StatusCode, data)
	}
	return res.StatusCode, v
}

type object = map[string]any

const policyText = "policies: [{ name: %s, key: client.ip, limits: %s }]\n"

// TestApplyInProcess checks drafts, publishing, conflicts and rollback in a process that
// follows its file, and that a change of the file replaces what was applied.
func TestApplyInProcess(t *testing.T) {
	s := serveFile(t, map[string]string{})
	inForce := func(want string) {
		t.Helper()
		if got := fmt.Sprint(s.reloader.current.Load().listing()); !strings.Contains(got, want) {
			t.Errorf("in force: %s, want %s", got, want)
		}
	}
	code, v := s.send(t, "GET", "/v1/text", nil)
	if code != 200 || v["version"] != 1.0 || v["scope"] != "process" || v["source"] != "weir.yaml" || !strings.Contains(v["note"].(string), "--policies store") {
		t.Fatalf("text: %d %v", code, v)
	}
	first := v["text"].(string)

	code, v = s.send(t, "POST", "/v1/draft", object{"text": fmt.Sprintf(policyText, "b", "0/s"), "base": 1})
	faults, _ := v["faults"].([]any)
	if code != 200 || v["valid"] != false || len(faults) != 1 {
		t.Fatalf("invalid draft: %d %v", code, v)
	}
	if f := faults[0].(object); f["line"] != 1.0 || f["column"] != 47.0 || !strings.Contains(f["field"].(string), "limits") || f["expected"] == "" || strings.Contains(f["message"].(string), "draft") {
		t.Errorf("fault: %v", f)
	}
	code, v = s.send(t, "POST", "/v1/draft", object{"text": fmt.Sprintf(policyText, "b", "2/s"), "base": 7})
	if code != 200 || v["valid"] != true || v["conflict"] != true || v["current"] != 1.0 || fmt.Sprint(v["diff"]) != "[map[op:@ text:@@ -1,1 +1,1 @@] map[op:- text:policies: [{ name: a, key: client.ip, limits: 1/s }]] map[op:+ text:policies: [{ name: b, key: client.ip, limits: 2/s }]]]" {
		t.Errorf("draft: %d %v", code, v)
	}
	if form := v["policies"].([]any)[0].(object); form["name"] != "b" || form["limits"] != "2/s" || form["line"] != 1.0 {
		t.Errorf("form: %v", form)
	}
	code, v = s.send(t, "POST", "/v1/draft/set", object{"text": first, "policy": "a", "field": "limits", "value": []string{"3/s"}})
	if code != 200 || v["text"] != fmt.Sprintf(policyText, "a", "[3/s]") {
		t.Errorf("set: %d %v", code, v)
	}

	next := fmt.Sprintf(policyText, "b", "2/s")
	for _, test := range []struct {
		path, field string
		body        object
		status      int
	}{
		{"/v1/apply", "reason", object{"text": next, "base": 1}, 400},
		{"/v1/apply", "reason", object{"text": next, "base": 1, "reason": " "}, 400},
		{"/v1/apply", "base", object{"text": next, "reason": "x"}, 400},
		{"/v1/apply", "base", object{"text": next, "reason": "x", "base": "1"}, 400},
		{"/v1/apply", "body", object{"text": next, "reason": "x", "base": 1, "force": true}, 400},
		{"/v1/apply", "base", object{"text": next, "reason": "x", "base": 2}, 409},
		{"/v1/apply", "text", object{"text": "policies: [", "reason": "x", "base": 1}, 422},
		{"/v1/apply", "text", object{"text": strings.ReplaceAll(next, "2/s", "0/s"), "reason": "x", "base": 1}, 422},
		{"/v1/rollback", "version", object{"version": 9, "reason": "x", "base": 1}, 404},
		{"/v1/rollback", "reason", object{"version": 1, "base": 1}, 400},
		{"/v1/draft/set", "policy", object{"text": first, "policy": "zz", "field": "limits"}, 400},
		{"/v1/draft/set", "action", object{"text": first, "policy": "a", "action": "move"}, 400},
		{"/v1/draft/set", "field", object{"text": first, "policy": "a"}, 400},
		{"/v1/draft/set", "text", object{"text": "policies: [{ name: a, limits: &x 1/s }]", "policy": "a", "field": "limits", "value": 1}, 422},
	} {
		code, v := s.send(t, "POST", test.path, test.body)
		if code != test.status || v["field"] != test.field || v["title"] == "" {
			t.Errorf("%s %v = %d %v, want %d about %s", test.path, test.body, code, v, test.status, test.field)
		}
		if code == 409 && (v["current"] != 1.0 || v["text"] != first) || code == 422 && test.path == "/v1/apply" && len(v["faults"].([]any)) == 0 {
			t.Errorf("%s %v = %v", test.path, test.body, v)
		}
	}
	inForce("{a ")

	code, v = s.send(t, "POST", "/v1/apply", object{"text": next, "base": 1, "reason": "ticket 812"})
	if code != 200 || v["version"] != 2.0 || v["scope"] != "process" || !strings.Contains(v["note"].(string), "this process only") {
		t.Fatalf("apply: %d %v", code, v)
	}
	inForce("version 2 in this process")
	inForce("{b ")
	s.hangup <- nil // reads the same file
	s.log.until(t, "cause=SIGHUP")
	inForce("{b ")

	code, v = s.send(t, "POST", "/v1/rollback", object{"version": 1, "base": 2, "reason": "wrong"})
	if code != 200 || v["version"] != 3.0 {
		t.Fatalf("rollback: %d %v", code, v)
	}
	inForce("{a ")
	code, v = s.send(t, "GET", "/v1/versions", nil)
	if code != 200 || len(v["versions"].([]any)) != 3 || v["versions"].([]any)[0].(object)["note"] != "back to version 1: wrong" || v["versions"].([]any)[1].(object)["by"] != "local" {
		t.Errorf("versions: %d %v", code, v)
	}
	if code, v = s.send(t, "GET", "/v1/versions/2", nil); code != 200 || v["text"] != next || v["note"] != "ticket 812" {
		t.Errorf("version 2: %d %v", code, v)
	}
	for path, want := range map[string]int{"/v1/versions/99": 404, "/v1/versions/x": 400} {
		if code, v := s.send(t, "GET", path, nil); code != want || v["field"] != "version" {
			t.Errorf("%s = %d %v", path, code, v)
		}
	}

	s.write(t, s.file, fmt.Sprintf(policyText, "c", "3/s"))
	s.hangup <- nil
	s.log.until(t, "cause=SIGHUP")
	inForce("{c ")
	if code, v = s.send(t, "GET", "/v1/text", nil); code != 200 || v["version"] != 4.0 || v["source"] != "weir.yaml" {
		t.Errorf("after a change of the file: %d %v", code, v)
	}
	entries, err := s.audit.Read(t.Context(), audit.Filter{})
	if err != nil || len(entries) != 3 {
		t.Fatalf("audit: %+v, %v, want the conflict, the apply and the rollback", entries, err)
	}
	if e := entries[1]; e.Action != "apply" || e.Actor != "local" || e.From != "1" || e.To != "2" || e.Reason != "ticket 812" || e.OK == nil || !*e.OK {
		t.Errorf("entry of the apply: %+v", e)
	}
	if e := entries[2]; e.OK == nil || *e.OK || !strings.Contains(e.Error, "current version is 1") {
		t.Errorf("entry of the conflict: %+v", e)
	}
}

// TestVersionsOfProcessAreBounded checks that at most 20 versions are kept.
func TestVersionsOfProcessAreBounded(t *testing.T) {
	s := serveFile(t, map[string]string{})
	for i := range 25 {
		code, v := s.send(t, "POST", "/v1/apply", object{"text": fmt.Sprintf(policyText, "b", fmt.Sprint(i+1, "/s")), "base": i + 1, "reason": "x"})
		if code != 200 {
			t.Fatalf("apply %d: %d %v", i, code, v)
		}
	}
	_, v := s.send(t, "GET", "/v1/versions", nil)
	if all := v["versions"].([]any); len(all) != 20 || all[0].(object)["version"] != 26.0 {
		t.Errorf("%d versions, the first %v", len(all), all[0])
	}
}
