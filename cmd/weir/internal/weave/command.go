package weave

import (
	"fmt"
	"strings"
)

// A command is a parsed command line of the go command.
type command struct {
	verb     string
	dir      string   // of -C
	flags    []string // between the verb and the packages
	packages []string // patterns, or files
	rest     []string // behind the packages
}

// verbs lists the go commands that compile packages, or print how, and accept an
// overlay.
var verbs = map[string]bool{"build": true, "install": true, "run": true, "test": true, "vet": true, "list": true}

// valued lists the flags that take the next argument as their value. All other flags
// are booleans, or unknown.
var valued = words(`C o p asmflags buildmode compiler covermode coverpkg gccgoflags gcflags
	installsuffix ldflags mod modfile overlay pgo pkgdir tags toolexec exec vettool
	bench benchtime blockprofile blockprofilerate count coverprofile cpu cpuprofile fuzz
	fuzzcachedir fuzzminimizetime fuzztime list memprofile memprofilerate mutexprofile
	mutexprofilefraction outputdir parallel run shuffle skip timeout trace vet
	f reuse c printf.funcs printfuncs unusedfuncs unusedresult.funcs
	unusedresult.stringmethods unusedstringmethods`)

// loading lists the flags that select the files of a build and their imports, or avoid
// compiling those twice.
var loading = words(`asan asmflags buildmode buildvcs compiler gccgoflags gcflags installsuffix
	linkshared mod modcacherw modfile msan overlay p pgo pkgdir race tags trimpath`)

// vetting lists the other flags that every checker of go vet accepts.
var vetting = words(`a json ldflags n toolexec v work x`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// parse parses a command line of the go command.
func parse(args []string) (command, error) {
	c := command{}
	var err error
	if args, err = c.chdir(args); err != nil || len(args) == 0 {
		return c, err
	}
	c.verb, args = args[0], args[1:]
	if !verbs[c.verb] {
		c.rest = args
		return c, nil
	}
	if args, err = c.chdir(args); err != nil {
		return c, err
	}
	for len(args) > 0 && isFlag(args[0]) {
		if name(args[0]) == "args" {
			c.rest = args
			return c, nil
		}
		n := c.width(args)
		c.flags = append(c.flags, args[:n]...)
		args = args[n:]
	}
	if len(args) > 0 && args[0] == "--" {
		c.flags, args = append(c.flags, "--"), args[1:]
	}
	n := 0
	for n < len(args) && !isFlag(args[n]) && (c.verb != "run" || n == 0 || isFile(args[n]) && isFile(args[0])) {
		n++
	}
	c.packages, c.rest = args[:n], args[n:]
	return c, nil
}

// chdir reads -C, which must be the first flag.
func (c *command) chdir(args []string) ([]string, error) {
	if len(args) == 0 || !isFlag(args[0]) || name(args[0]) != "C" {
		return args, nil
	}
	_, dir, ok := strings.Cut(args[0], "=")
	args = args[1:]
	if !ok {
		if len(args) == 0 {
			return nil, fmt.Errorf("weave: -C: want a directory after it")
		}
		dir, args = args[0], args[1:]
	}
	c.dir = dir
	return args, nil
}

// width returns the number of arguments of the first flag.
func (c *command) width(args []string) int {
	n := name(args[0])
	value := valued[n] && !(n == "c" && c.verb == "test") && !(n == "list" && c.verb == "list")
	if value && !strings.Contains(args[0], "=") && len(args) > 1 {
		return 2
	}
	return 1
}

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg != "--" }

func isFile(arg string) bool { return strings.HasSuffix(arg, ".go") }

// name returns the name of a flag, without dashes, value and the prefix of test flags.
func name(arg string) string {
	n, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return strings.TrimPrefix(n, "test.")
}

// all returns all flags, also those after the packages, which go test allows, but not
// the arguments of the program or the test.
func (c *command) all() (flags [][]string) {
	for _, list := range [][]string{c.flags, c.rest} {
		for len(list) > 0 && isFlag(list[0]) && name(list[0]) != "args" {
			n := c.width(list)
			flags = append(flags, list[:n])
			list = list[n:]
		}
		if c.verb == "run" {
			break
		}
	}
	return flags
}

// only returns the flags with the given names.
func (c *command) only(names ...map[string]bool) (flags []string) {
	for _, f := range c.all() {
		for _, set := range names {
			if set[name(f[0])] {
				flags = append(flags, f...)
			}
		}
	}
	return flags
}

// value returns the value of the last flag of a name.
func (c *command) value(flag string) (v string, ok bool) {
	for _, f := range c.all() {
		if name(f[0]) != flag {
			continue
		}
		ok = true
		if len(f) > 1 {
			v = f[1]
		} else if _, after, is := strings.Cut(f[0], "="); is {
			v = after
		} else {
			v = "true"
		}
	}
	return v, ok
}

// without returns flags and the arguments after them, without those of one name.
func (c *command) without(list []string, flag string) (out []string) {
	for len(list) > 0 && isFlag(list[0]) && name(list[0]) != "args" {
		n := c.width(list)
		if name(list[0]) != flag {
			out = append(out, list[:n]...)
		}
		list = list[n:]
	}
	return append(out, list...)
}

// covers reports whether the command measures coverage.
func (c *command) covers(goflags []string) bool {
	for _, f := range c.all() {
		if isCover(f[0]) {
			return true
		}
	}
	for _, f := range goflags {
		if isCover(f) {
			return true
		}
	}
	return false
}

// trims reports whether the command builds a program with -trimpath. Checkers and tests report
// positions as absolute paths nevertheless.
func (c *command) trims(goflags []string) bool {
	on := false
	for _, f := range goflags {
		if name(f) == "trimpath" {
			on = !strings.HasSuffix(f, "=false")
		}
	}
	if v, ok := c.value("trimpath"); ok {
		on = v != "false"
	}
	return on && (c.verb == "build" || c.verb == "install" || c.verb == "run")
}

func isCover(flag string) bool {
	switch name(flag) {
	case "cover":
		return !strings.HasSuffix(flag, "=false")
	case "covermode", "coverpkg", "coverprofile":
		return true
	}
	return false
}

// split splits GOFLAGS, or a command such as that of -toolexec, at its spaces. A word
// may be in single or double quotes.
func split(list string) (all []string, err error) {
	for list = strings.TrimSpace(list); list != ""; list = strings.TrimSpace(list) {
		if q := list[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(list[1:], q)
			if end < 0 {
				return nil, fmt.Errorf("weave: %q: want a quote at the end of the word", list)
			}
			all, list = append(all, list[1:end+1]), list[end+2:]
			continue
		}
		end := strings.IndexAny(list, " \t\r\n")
		if end < 0 {
			end = len(list)
		}
		all, list = append(all, list[:end]), list[end:]
	}
	return all, nil
}
