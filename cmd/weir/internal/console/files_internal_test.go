package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// files returns the files by their path below Path.
func files(t *testing.T) map[string]string {
	texts, err := contents()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, text := range texts {
		all[name] = string(text)
	}
	return all
}

// Files of others are those of their release, with their licences.
func TestLibraries(t *testing.T) {
	want := map[string]string{
		"lib/LICENSE.preact.txt": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
		"lib/LICENSE.uplot.txt":  "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
		"lib/hooks.js":           "5c65ab263688d0805862fd0807c779af02c2799c44fda0873dfcb870d0da70a0",
		"lib/preact.js":          "225d7a773766e6fb2cfcc45274fe41d2059f5782f3f2c4569aa5132a2d3a2902",
		"lib/uPlot.css":          "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"lib/uPlot.js":           "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
	}
	for name, text := range files(t) {
		if !strings.HasPrefix(name, "lib/") {
			continue
		}
		sum := sha256.Sum256([]byte(text))
		if got := hex.EncodeToString(sum[:]); got != want[name] {
			t.Errorf("%s has hash %s, want %s", name, got, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
	for _, licence := range []string{"lib/LICENSE.preact.txt", "lib/LICENSE.uplot.txt"} {
		if text := files(t)[licence]; !strings.Contains(text, "MIT License") {
			t.Errorf("%s is no MIT licence", licence)
		}
	}
}

// Sizes are those that a browser receives: compressed.
func TestBudget(t *testing.T) {
	sizes := map[string]int{}
	for name, text := range files(t) {
		kind := path.Ext(name)
		if strings.HasPrefix(name, "lib/") {
			kind = "libraries"
		}
		sizes[kind] += len(pack([]byte(text)))
	}
	most := map[string]int{"libraries": 32 << 10, ".js": 45 << 10, ".css": 10 << 10, ".json": 14 << 10, ".html": 15 << 10, ".svg": 1 << 10}
	sum := 0
	for kind, n := range sizes {
		t.Logf("%-10s %6d bytes", kind, n)
		if sum += n; n > most[kind] {
			t.Errorf("%s: %d bytes compressed, want %d or fewer", kind, n, most[kind])
		}
	}
	if sum > 150<<10 {
		t.Errorf("%d bytes compressed, want 150 KB or fewer", sum)
	}
}

// No file refers to another host, and no page has inline scripts or styles.
func TestForeignAndInline(t *testing.T) {
	foreign := regexp.MustCompile(`(?i)(?:https?:)?//[a-z0-9-]+\.[a-z]{2,}`)
	for name, text := range files(t) {
		if strings.HasPrefix(name, "lib/") {
			continue
		}
		text = strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, "")
		if found := foreign.FindString(text); found != "" {
			t.Errorf("%s refers to %s", name, found)
		}
		if path.Ext(name) == ".html" {
			for _, inline := range []string{"<style", " style=", "<script>", " onclick", " onload", "javascript:"} {
				if strings.Contains(text, inline) {
					t.Errorf("%s has %s", name, inline)
				}
			}
		}
		for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
			if strings.Contains(text, unsafe) {
				t.Errorf("%s uses %s: texts of clients are text nodes", name, unsafe)
			}
		}
	}
}

// Each file that a page or a module names exists.
func TestReferences(t *testing.T) {
	all := files(t)
	named := regexp.MustCompile(`(?:src="|href="|from "|import ")((?:\./|\.\./)?[a-zA-Z0-9/.-]+\.(?:js|css|svg))"`)
	for name, text := range all {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if target := path.Join(path.Dir(name), m[1]); all[target] == "" && !strings.HasPrefix(name, "lib/") {
				t.Errorf("%s names %s, which does not exist", name, target)
			}
		}
	}
}

func texts(t *testing.T, lang string) map[string]string {
	var all map[string]string
	if err := json.Unmarshal([]byte(files(t)["text/"+lang+".json"]), &all); err != nil {
		t.Fatalf("text/%s.json: %v", lang, err)
	}
	return all
}

// Both languages have the same texts, with the same values in them.
func TestLanguages(t *testing.T) {
	values, han := regexp.MustCompile(`\{\w+\}`), regexp.MustCompile(`\p{Han}`)
	// same are texts that Chinese engineers write in the same way.
	same := []string{"unit.ms", "unit.milliseconds", "key.key", "key.of", "key.by", "key.part", "policies.count"}
	en, zh := texts(t, "en"), texts(t, "zh")
	for key, text := range en {
		other, ok := zh[key]
		a, b := values.FindAllString(text, -1), values.FindAllString(other, -1)
		slices.Sort(a)
		slices.Sort(b)
		switch {
		case !ok:
			t.Errorf("zh has no %s", key)
		case !slices.Equal(a, b):
			t.Errorf("%s: values %v in en, %v in zh", key, a, b)
		case !han.MatchString(other) && !slices.Contains(same, key):
			t.Errorf("zh %s is not translated: %s", key, other)
		case strings.TrimSpace(text) == "" || han.MatchString(text):
			t.Errorf("en %s is %q", key, text)
		}
	}
	for key := range zh {
		if _, ok := en[key]; !ok {
			t.Errorf("en has no %s", key)
		}
	}
}

// The texts that the scripts name exist, each text is named, and no script contains text of
// its own in Chinese.
func TestTextsAreUsed(t *testing.T) {
	known := texts(t, "en")
	used := map[string]bool{}
	exact := regexp.MustCompile(`\bt\("([^"]+)"(\s*\+)?`)
	prefix := regexp.MustCompile(`\bt\("([a-zA-Z-]+\.)" \+|\bword\("([a-zA-Z]+)"`)
	quoted := regexp.MustCompile(`"([a-z][a-zA-Z-]*\.[a-zA-Z0-9.-]+)"`)
	for name, text := range files(t) {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, "lib/") {
			continue
		}
		for _, m := range exact.FindAllStringSubmatch(text, -1) {
			if m[2] == "" && known[m[1]] == "" {
				t.Errorf("%s uses the text %s, which does not exist", name, m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
		}
		for _, m := range prefix.FindAllStringSubmatch(text, -1) {
			p := m[1] + m[2]
			for key := range known {
				if strings.HasPrefix(key, strings.TrimSuffix(p, ".")+".") {
					used[key] = true
				}
			}
		}
		if han := regexp.MustCompile(`\p{Han}+`).FindString(text); han != "" && han != "中文" {
			t.Errorf("%s contains %s, which belongs into text/zh.json", name, han)
		}
	}
	for key := range known {
		if !used[key] {
			t.Errorf("no script uses the text %s", key)
		}
	}
}
