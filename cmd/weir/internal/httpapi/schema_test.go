package httpapi_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// An openAPIDocument is an OpenAPI document, or a part of it, as JSON.
type openAPIDocument struct{ root any }

// at follows names from the root. It returns nil if there is no such element.
func (d openAPIDocument) at(names ...string) any {
	v := d.root
	for _, n := range names {
		m, _ := v.(map[string]any)
		v = m[n]
	}
	return v
}

// resolve follows a reference within the document.
func (d openAPIDocument) resolve(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if ref, ok := m["$ref"].(string); ok {
		return d.resolve(d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	return v
}

// check reports what violates a schema. It knows the keywords of the document, and
// reports any other.
func (d openAPIDocument) check(path string, schema, value any) (wrong []string) {
	s, ok := d.resolve(schema).(map[string]any)
	if !ok {
		return []string{path + ": no schema"}
	}
	bad := func(format string, args ...any) { wrong = append(wrong, path+": "+fmt.Sprintf(format, args...)) }
	text, _ := value.(string)
	number, isNumber := value.(float64)
	list, _ := value.([]any)
	object, isObject := value.(map[string]any)
	for word, want := range s {
		limit, _ := want.(float64)
		switch word {
		case "description", "examples":
		case "type":
			if is := typeOf(value); is != want && !(want == "number" && is == "integer") {
				bad("is %s, want %s", is, want)
			}
		case "const":
			if !reflect.DeepEqual(value, want) {
				bad("is %v, want %v", value, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), value) {
				bad("is %v, want one of %v", value, want)
			}
		case "minLength", "maxLength":
			if n := float64(utf8.RuneCountInString(text)); word == "minLength" && n < limit || word == "maxLength" && n > limit {
				bad("has %v characters, %s %v", n, word, limit)
			}
		case "minItems", "maxItems":
			if n := float64(len(list)); value != nil && (word == "minItems" && n < limit || word == "maxItems" && n > limit) {
				bad("has %v items, %s %v", n, word, limit)
			}
		case "minimum", "maximum", "exclusiveMinimum":
			if isNumber && (word == "minimum" && number < limit || word == "maximum" && number > limit || word == "exclusiveMinimum" && number <= limit) {
				bad("is %v, %s %v", number, word, limit)
			}
		case "format":
			if _, err := time.Parse(time.RFC3339Nano, text); want != "date-time" || err != nil {
				bad("is %q, want %s", text, want)
			}
		case "items":
			for i, v := range list {
				wrong = append(wrong, d.check(fmt.Sprintf("%s[%d]", path, i), want, v)...)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, has := object[name.(string)]; isObject && !has {
					bad("has no %s", name)
				}
			}
		case "properties":
			for name, v := range object {
				if p, known := want.(map[string]any)[name]; known {
					wrong = append(wrong, d.check(path+"."+name, p, v)...)
				}
			}
		case "additionalProperties":
			for name := range object {
				if _, known := s["properties"].(map[string]any)[name]; !known {
					bad("has %s, which the schema has not", name)
				}
			}
		case "oneOf":
			fits := 0
			for _, one := range want.([]any) {
				if len(d.check(path, one, value)) == 0 {
					fits++
				}
			}
			if fits != 1 {
				bad("fits %d of oneOf, want 1", fits)
			}
		default:
			bad("the schema has %s, which this test does not know", word)
		}
	}
	return wrong
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// TestSchemaCheck checks that check finds violations.
func TestSchemaCheck(t *testing.T) {
	for _, test := range []struct{ schema, value, want string }{
		{`{"type":"integer","minimum":0}`, `1`, ""},
		{`{"type":"integer"}`, `1.5`, "is number"},
		{`{"type":"integer","minimum":0}`, `-1`, "minimum"},
		{`{"type":"number","exclusiveMinimum":0}`, `0`, "exclusiveMinimum"},
		{`{"type":"string","maxLength":1}`, `"ab"`, "maxLength"},
		{`{"type":"array","minItems":2}`, `[1]`, "minItems"},
		{`{"type":"array","items":{"type":"string"}}`, `["a",1]`, "[1]: is integer"},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":false}`, `{"b":1}`, "has b"},
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1}`, ".a: is integer"},
		{`{"required":["a"]}`, `{}`, "has no a"},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`, "fits 2"},
		{`{"format":"date-time"}`, `"yesterday"`, "want date-time"},
		{`{"const":true}`, `false`, "want true"},
		{`{"enum":["a"]}`, `"b"`, "one of"},
		{`{"pattern":"a"}`, `"b"`, "does not know"},
	} {
		var schema, value any
		if err := json.Unmarshal([]byte(test.schema), &schema); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.value), &value); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(openAPIDocument{}.check("", schema, value), "; ")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("check(%s, %s) = %q, want %q", test.schema, test.value, got, test.want)
		}
	}
}
