package edge

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// Conf returns a configuration for the http block of nginx. An error is Errors: all
// faults of the policies and of in at once.
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

// leastDict is the minimum size of the shared dictionary in MB. It holds the counters
// and the published plan.
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
	// lua_package_path is allowed once, and the user may have set it.
	fmt.Fprintf(&b, "\ninit_by_lua_block {\n  package.path = \"%s/?.lua;\" .. package.path\n", strings.TrimRight(in.Lua, "/"))
	first(&b, "  ", in.Init)
	b.WriteString("  require(\"weir\").init(table.concat{\n")
	chunks(&b, s.JSON())
	b.WriteString("  }, table.concat{\n")
	chunks(&b, text)
	b.WriteString("  })\n}\ninit_worker_by_lua_block {\n")
	first(&b, "  ", in.InitWorker)
	b.WriteString("  require(\"weir\").start()\n}\n\n# These do nothing for requests that access did not decide.\n" +
		"header_filter_by_lua_block { require(\"weir\").header_filter() }\nlog_by_lua_block { require(\"weir\").log() }\n")
	return b.String()
}

// first runs a file of the user's Lua, if there is one.
func first(b *strings.Builder, indent, file string) {
	if file != "" {
		fmt.Fprintf(b, "%sdofile(\"%s\")\n", indent, file)
	}
}

// head writes a comment with the origin of the file and the next steps.
func head(b *strings.Builder, s *Settings, in *Input) {
	say := func(format string, args ...any) {
		b.WriteString(strings.TrimRight("# "+fmt.Sprintf(format, args...), " ") + "\n")
	}
	say("Weir in nginx, generated from %s by `weir edge nginx`. Do not edit: generate it again.", comment(in.File))
	if s.Follow {
		say("These policies apply until `weir apply` publishes others in the store.")
	}
	say("")
	if s.Redis.Password != "" || s.Redis.SentinelPassword != "" {
		say("This file contains a password: only root should read it (chmod 600).")
	}
	say("Next: write the Lua with `weir edge lua %s`, include this file in the http block", comment(in.Lua))
	say("of nginx, and add to each server or location that is to be limited")
	say("")
	say(`    access_by_lua_block { require("weir").access() }`)
	say("")
	say("A server or location with its own header_filter_by_lua or log_by_lua does not use the")
	say("blocks at the end: call Weir's functions there too.")
	if names := s.Redis.names(); len(names) > 0 {
		say("")
		say("nginx resolves %s itself: the http block needs the directive", comment(strings.Join(names, " and ")))
		say("resolver.")
	}
}

// comment returns text that cannot end its comment.
func comment(s string) string {
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// chunk is the maximum length of a Lua string: a token of nginx has at most 4096 bytes.
const chunk = 900

// chunks writes text as elements of a Lua table, in printable ASCII. Each named object
// begins a line, so that versions can be compared.
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
