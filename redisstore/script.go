package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// Script returns the script that decides every request, for a program that runs it itself
// and shares the keys of a store. lua/main.lua documents its keys, arguments and reply. It
// is the same for all requests.
func Script() string { return script().text }

type scriptText struct{ text, sha string }

var script = sync.OnceValue(func() scriptText {
	text := assemble()
	// Redis names scripts by their SHA-1, which is not used for security here.
	sum := sha1.Sum([]byte(text))
	return scriptText{text, hex.EncodeToString(sum[:])}
})

var (
	luaConstant = regexp.MustCompile(`(?m)^local ([A-Z_]+) = ('[^']*'|-?\d+)`)
	luaName     = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
	luaComment  = regexp.MustCompile(`(?m)^\s*--.*\n`)
)

// assemble joins the files of the directory lua. Each file except prelude, main and take becomes
// a branch of one function, so a call runs only the algorithms that it uses. The file take becomes a
// part of main. The constants of prelude become numbers.
func assemble() string {
	names, err := fs.Glob(luaFiles, "lua/*.lua")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	constants := map[string]string{}
	for _, m := range luaConstant.FindAllStringSubmatch(read("lua/prelude.lua"), -1) {
		constants[m[1]] = m[2]
	}
	body := func(file string) string {
		text := luaComment.ReplaceAllString(read(file), "")
		return luaName.ReplaceAllStringFunc(text, func(name string) string {
			if v, ok := constants[name]; ok {
				return v
			}
			return name
		})
	}
	var b strings.Builder
	b.WriteString("local function use(name)\n")
	// The branches of most calls come first, as each comparison with a name may miss the cache.
	first := []string{"lua/takes.lua", "lua/token_bucket.lua", "lua/fixed_window.lua"}
	names = append(first, slices.DeleteFunc(names, func(f string) bool { return slices.Contains(first, f) })...)
	for _, f := range names {
		name := strings.TrimSuffix(path.Base(f), ".lua")
		if name == "prelude" || name == "main" || name == "take" {
			continue
		}
		b.WriteString("if name == '" + name + "' then\n" + body(f) + "end\n")
	}
	b.WriteString("local outer, inner = string.match(name, '^([^/]+)/(.+)$')\n" +
		"if outer then return use(outer)(use(inner)) end\n" +
		"error('weir: no algorithm ' .. name)\nend\n")
	b.WriteString(strings.Replace(body("lua/main.lua"), "return use('take') -- script.go puts the file here\n", body("lua/take.lua"), 1))
	return b.String()
}

func read(name string) string {
	text, err := luaFiles.ReadFile(name)
	if err != nil {
		panic(err) // embedded with the package
	}
	return string(text)
}
