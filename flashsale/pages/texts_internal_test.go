package pages

import (
	"io/fs"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/sale"
)

// Both languages have the same texts, with the same values in them.
func TestTextsAreEqual(t *testing.T) {
	values := regexp.MustCompile(`\{\w+\}`)
	all := map[string]map[string]string{}
	for _, lang := range languages() {
		all[lang] = words(lang)
	}
	for key := range all["en"] {
		if _, ok := all["zh"][key]; !ok {
			t.Errorf("zh has no %s", key)
		}
	}
	for key, zh := range all["zh"] {
		en, ok := all["en"][key]
		if !ok {
			t.Errorf("en has no %s", key)
			continue
		}
		e, z := values.FindAllString(en, -1), values.FindAllString(zh, -1)
		slices.Sort(e)
		slices.Sort(z)
		if !slices.Equal(e, z) {
			t.Errorf("%s: values %v in en, %v in zh", key, e, z)
		}
		if strings.TrimSpace(en) == "" || strings.TrimSpace(zh) == "" {
			t.Errorf("%s is empty", key)
		}
	}
}

// Each reason of a FieldError has a text.
func TestTextsOfFieldErrors(t *testing.T) {
	for _, code := range sale.FieldCodes() {
		if words("en")["fault."+string(code)] == "" {
			t.Errorf("there is no text fault.%s", code)
		}
	}
}

// Each text that a script or a page names is there, and each that is there is named.
func TestTextsAreUsed(t *testing.T) {
	named := regexp.MustCompile("[\"`]((?:[a-z][a-zA-Z0-9_.]*)?(?:\\$\\{[^}]*\\}[a-z.]*)*)[\"`]")
	source := sources(t)
	var patterns []*regexp.Regexp
	for _, m := range named.FindAllStringSubmatch(source, -1) {
		parts := regexp.MustCompile(`\$\{[^}]*\}`).Split(m[1], -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if p := strings.Join(parts, `[A-Za-z0-9_]+`); p != "" && p != `[A-Za-z0-9_]+` {
			patterns = append(patterns, regexp.MustCompile("^"+p+"$"))
		}
	}
	texts := words("en")
	for key := range texts {
		if !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(key) }) {
			t.Errorf("no script uses %s", key)
		}
	}
	for _, m := range regexp.MustCompile(`\bt\("([^"]+)"|index \.T "([^"]+)"`).FindAllStringSubmatch(source, -1) {
		if key := m[1] + m[2]; texts[key] == "" {
			t.Errorf("there is no text %s", key)
		}
	}
	for _, p := range slices.Concat(pagesOf("shop"), pagesOf("office"), []page{{title: "missing.title"}}) {
		if texts[p.title] == "" {
			t.Errorf("page %s has no title", p.pattern)
		}
	}
}

func sources(t *testing.T) string {
	var b strings.Builder
	err := fs.WalkDir(embedded, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && path.Dir(name) != "static/lib" && (path.Ext(name) == ".js" || path.Ext(name) == ".html") {
			text, _ := embedded.ReadFile(name)
			b.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(pagesOf("shop"), pagesOf("office")) {
		b.WriteString(`"` + p.title + `" `)
	}
	return b.String() + `"missing.title"`
}

// Nothing makes markup of a text, or code.
func TestScriptsMakeNoMarkup(t *testing.T) {
	if found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|setHTML`).FindAllString(sources(t), -1); found != nil {
		t.Errorf("the scripts use %v", found)
	}
}

// A script imports what is there.
func TestImports(t *testing.T) {
	for _, site := range []string{"shop", "office"} {
		files, _ := static(site)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			for _, m := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(string(files[name].body), -1) {
				if _, ok := files[m[1]]; !ok {
					t.Errorf("%s: %s imports %s, which is not there", site, name, m[1])
				}
			}
		}
		for _, p := range pagesOf(site) {
			if _, ok := files[p.script]; !ok {
				t.Errorf("%s: page %s has no script %s", site, p.pattern, p.script)
			}
		}
	}
}

// TestContrast checks both color schemes by WCAG 2.2. Texts have a contrast of at least 4.5:1
// (1.4.3). Edges of inputs and the focus ring have 3:1 (1.4.11).
func TestContrast(t *testing.T) {
	css, err := embedded.ReadFile("static/common/style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, rest, ok := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("no dark scheme")
	}
	property := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)
	scheme := map[string]string{}
	read := func(text string) map[string]string {
		for _, m := range property.FindAllStringSubmatch(text, -1) {
			scheme[m[1]] = m[2]
		}
		return maps.Clone(scheme)
	}
	schemes := map[string]map[string]string{"light": read(light)}
	schemes["dark"] = read(rest)
	pairs := []struct {
		ink, ground string
		least       float64
	}{
		{"ink", "ground", 4.5}, {"ink", "paper", 4.5}, {"soft", "ground", 4.5}, {"soft", "paper", 4.5},
		{"accent", "ground", 4.5}, {"accent", "paper", 4.5}, {"accent", "tint", 4.5}, {"accent-strong", "paper", 4.5}, {"accent-strong", "ground", 4.5},
		{"on-accent", "accent", 4.5}, {"on-accent", "accent-strong", 4.5}, {"warn-ink", "warn-ground", 4.5}, {"good-ink", "good-ground", 4.5},
		{"blue", "paper", 4.5}, {"green", "paper", 4.5}, {"brown", "paper", 4.5},
		{"edge", "paper", 3}, {"ink", "tint", 4.5}, {"accent", "good-ground", 3}, {"accent", "warn-ground", 3},
	}
	for name, colours := range schemes {
		if len(colours) < 14 {
			t.Fatalf("%s: %d colours were read", name, len(colours))
		}
		for _, p := range pairs {
			if got := contrast(t, colours[p.ink], colours[p.ground]); got < p.least {
				t.Errorf("%s: %s on %s has %.2f:1, want %.1f:1", name, p.ink, p.ground, got, p.least)
			}
		}
	}
	// Colours stand nowhere else, so that the pairs above are all there are.
	for _, part := range []string{light, rest} {
		for _, line := range strings.Split(part, "\n") {
			if regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`).MatchString(line) && !property.MatchString(line) {
				t.Errorf("a colour that is no property: %s", line)
			}
		}
	}
	if got := contrast(t, "777777", "ffffff"); math.Abs(got-4.48) > 0.01 {
		t.Errorf("contrast of #777777 on white = %.3f, want 4.48", got)
	}
}

func contrast(t *testing.T, a, b string) float64 {
	l := []float64{luminance(t, a), luminance(t, b)}
	slices.Sort(l)
	return (l[1] + 0.05) / (l[0] + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	n, err := strconv.ParseUint(colour, 16, 32)
	if err != nil {
		t.Fatalf("colour %q: %v", colour, err)
	}
	linear := func(shift int) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(16) + 0.7152*linear(8) + 0.0722*linear(0)
}
