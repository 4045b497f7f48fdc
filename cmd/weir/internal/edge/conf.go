package edge

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// Conf is a configuration of nginx, to be included in its http block. An error is
// Errors: all faults of the policies and of in at once.
func Conf(set *policy.Set, o Options, in Input) (string, error) {
	f := &fault.Collector{File: "edge", Max: maxErrors}
	if in.Lua == "" {
		in.Lua = DefaultLua
	}
	if !filepath.IsAbs(in.Lua) || !plain(in.Lua) || strings.ContainsAny(in.Lua, ";?") {
		f.Add("lua", fault.Quote(in.Lua), "want the absolute path of a directory, without quotes, backslashes, dollars, semicolons, question marks and control characters")
	}
	for _, own := range []struct{ field, file string }{{"init", in.Init}, {"init_worker", in.InitWorker}} {
		if own.file != "" && (!filepath.IsAbs(own.file) || !plain(own.file)) {
			f.Add(own.field, fault.Quote(own.file), "want the absolute path of a file, without quotes, backslashes, dollars and control characters")
		}
	}
	trusts := len(in.Client.Trusted) > 0 || in.Client.TrustUnix
	if trusts && strings.EqualFold(in.Client.Header, "forwarded") {
		f.Add("gateway.client_header", "forwarded", "nginx reads X-Forwarded-For: want x-forwarded-for, or no gateway.trusted_proxies")
	}
	s, ca := in.settings(f)
	plan, err := Compile(set, o)
	if errs, ok := err.(fault.Errors); ok {
		f.Errs = append(f.Errs, errs...)
	}
	if err := f.Errs.Err(); err != nil {
		return "", err
	}
	return conf(plan, &s, &in, ca), nil
}

// leastDict is the size of the shared dictionary in MB. It keeps counters, and a few
// plans if they are up to an eighth of it.
const leastDict = 10

func conf(plan *Plan, s *Settings, in *Input, ca string) string {
	var b strings.Builder
	head(&b, s, in)
	text := plan.JSON()
	fmt.Fprintf(&b, "\nlua_shared_dict weir %dm;\nlua_socket_log_errors off;\n", max(leastDict, 1+8*len(text)>>20))
	if s.Redis.TLS && s.Redis.Verify {
		fmt.Fprintf(&b, "lua_ssl_trusted_certificate \"%s\";\nlua_ssl_verify_depth 5;\n", ca)
	}
	for _, p := range in.Client.Trusted {
		fmt.Fprintf(&b, "set_real_ip_from %s;\n", p)
	}
	if in.Client.TrustUnix {
		b.WriteString("set_real_ip_from unix:;\n")
	}
	if len(in.Client.Trusted) > 0 || in.Client.TrustUnix {
		b.WriteString("real_ip_header X-Forwarded-For;\nreal_ip_recursive on;\n")
	}
	// lua_package_path may stand there once, and may be another's.
	fmt.Fprintf(&b, "\ninit_by_lua_block {\n  package.path = \"%s/?.lua;\" .. package.path\n", strings.TrimRight(in.Lua, "/"))
	first(&b, "  ", in.Init)
	b.WriteString("  require(\"weir\").init(table.concat{\n")
	chunks(&b, s.JSON())
	b.WriteString("  }, table.concat{\n")
	chunks(&b, text)
	b.WriteString("  })\n}\ninit_worker_by_lua_block {\n")
	first(&b, "  ", in.InitWorker)
	b.WriteString("  require(\"weir\").start()\n}\n\n# These do nothing for requests that access was not called for.\n" +
		"header_filter_by_lua_block { require(\"weir\").header_filter() }\nlog_by_lua_block { require(\"weir\").log() }\n")
	return b.String()
}

// first runs a file of somebody else's Lua, if there is one.
func first(b *strings.Builder, indent, file string) {
	if file != "" {
		fmt.Fprintf(b, "%sdofile(\"%s\")\n", indent, file)
	}
}

// head says what the file is, and what is left to do.
func head(b *strings.Builder, s *Settings, in *Input) {
	say := func(format string, args ...any) {
		b.WriteString(strings.TrimRight("# "+fmt.Sprintf(format, args...), " ") + "\n")
	}
	say("Weir in nginx, made of %s by `weir edge nginx`. Make it anew rather than edit it.", comment(in.File))
	if s.Follow {
		say("These policies hold until others are published in the store (weir apply).")
	}
	say("")
	if s.Redis.Password != "" || s.Redis.SentinelPassword != "" {
		say("There is a password in it: let nobody but root read it (chmod 600).")
	}
	say("Next: write the Lua with `weir edge lua %s`, include this file in the http block", comment(in.Lua))
	say("of nginx, and in each server or location that is to be limited say")
	say("")
	say(`    access_by_lua_block { require("weir").access() }`)
	say("")
	say("A server or location with a header_filter_by_lua or log_by_lua of its own has it")
	say("instead of the one at the end: let it call Weir's too.")
	if names := s.Redis.names(); len(names) > 0 {
		say("")
		say("nginx looks up %s itself, by the name server that the directive", comment(strings.Join(names, " and ")))
		say("resolver of the http block names: it needs one.")
	}
}

// comment is text that stays in its comment.
func comment(s string) string {
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// A token of nginx may have 4096 bytes, and a text in Lua is one.
const chunk = 900

// chunks writes text as elements of a table in Lua, all of whose bytes are printable
// ASCII. What has a name begins a line, for those who read it or compare two.
func chunks(b *strings.Builder, text string) {
	n := 0
	end := func() {
		if n > 0 {
			b.WriteString("',\n")
		}
		n = 0
	}
	for i := range len(text) {
		if n >= chunk || strings.HasPrefix(text[i:], `{"name":`) {
			end()
		}
		if n == 0 {
			b.WriteString("    '")
		}
		before := b.Len()
		switch c := text[i]; {
		case c < ' ' || c > '~' || c == '\'' || c == '\\':
			fmt.Fprintf(b, `\%03d`, c)
		default:
			b.WriteByte(c)
		}
		n += b.Len() - before
	}
	end()
}
