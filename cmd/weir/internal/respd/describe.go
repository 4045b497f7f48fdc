package respd

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// commandCommand answers COMMAND, which clients send to learn the commands.
func (c *conn) commandCommand(args [][]byte) {
	if len(args) == 1 {
		c.out.array(len(c.s.names))
		for _, name := range c.s.names {
			c.describe(name)
		}
		return
	}
	sub := strings.ToLower(shown(args[1]))
	names := args[2:]
	switch sub {
	case "count":
		c.out.number(int64(len(c.s.names)))
	case "list":
		c.out.array(len(c.s.names))
		for _, name := range c.s.names {
			c.out.bulk(name)
		}
	case "info":
		if len(names) == 0 {
			c.commandCommand(args[:1])
			return
		}
		c.out.array(len(names))
		for _, name := range names {
			if name := strings.ToLower(shown(name)); c.knows(name) {
				c.describe(name)
				continue
			}
			c.out.null()
		}
	case "docs":
		c.docs(names)
	case "getkeys":
		switch {
		case len(names) == 0 || !equal(names[0], throttle):
			c.out.fail("ERR The command has no key arguments")
		case len(names) < 2:
			c.out.fail("ERR Invalid number of arguments specified for command")
		default:
			c.out.array(1)
			c.out.bulk(string(names[1]))
		}
	default:
		c.out.fail("ERR unknown subcommand '" + shown(args[1]) + "'. Try COMMAND HELP.")
	}
}

func (c *conn) knows(name string) bool {
	_, ok := slices.BinarySearch(c.s.names, name)
	return ok
}

// describe appends the entry of a command in COMMAND INFO: name, arity, flags, first key,
// last key and step, ACL categories, tips, key specifications, subcommands.
func (c *conn) describe(name string) {
	cmd := c.s.commands[name]
	flags := []string{"loading", "stale", "fast"}
	if cmd.beforeAuth {
		flags = append(flags, "no_auth")
	}
	key := int64(0)
	if name == throttle {
		flags, key = []string{"write"}, 1
	}
	c.out.array(10)
	c.out.bulk(name)
	c.out.number(int64(cmd.arity))
	c.out.set(len(flags))
	for _, f := range flags {
		c.out.simple(f)
	}
	for range 3 {
		c.out.number(key)
	}
	for range 4 {
		c.out.array(0)
	}
}

func (c *conn) docs(names [][]byte) {
	list := c.s.names
	if len(names) > 0 {
		list = nil
		for _, name := range names {
			if name := strings.ToLower(shown(name)); c.knows(name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	c.out.pairs(len(list))
	for _, name := range list {
		group := "connection"
		if name == throttle {
			group = "module"
		}
		c.out.bulk(name)
		c.out.pairs(2)
		c.out.bulk("summary")
		c.out.bulk(c.s.commands[name].summary)
		c.out.bulk("group")
		c.out.bulk(group)
	}
}

// info answers INFO with the requested sections.
func (c *conn) info(args [][]byte) {
	s := c.s
	var b strings.Builder
	section := func(name string, facts ...any) {
		wanted := len(args) == 1
		for _, a := range args[1:] {
			wanted = wanted || equal(a, name) || equal(a, "all") || equal(a, "default") || equal(a, "everything")
		}
		if !wanted {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + name + "\r\n")
		for i := 0; i+1 < len(facts); i += 2 {
			fmt.Fprintf(&b, "%v:%v\r\n", facts[i], facts[i+1])
		}
	}
	port := 0
	if a, ok := c.nc.LocalAddr().(*net.TCPAddr); ok {
		port = a.Port
	}
	up := time.Since(s.started)
	server := []any{"server_name", "weir"}
	if s.config.Version != "" {
		server = append(server, "weir_version", s.config.Version)
	}
	section("Server", append(server, "redis_version", redisVersion, "redis_mode", "standalone", "os", runtime.GOOS, "process_id", os.Getpid(),
		"tcp_port", port, "uptime_in_seconds", int64(up.Seconds()), "uptime_in_days", int64(up.Hours()/24))...)
	section("Clients", "connected_clients", s.clients.Load(), "maxclients", s.config.MaxConns)
	section("Stats", "total_connections_received", s.accepted.Load(), "rejected_connections", s.refused.Load(),
		"total_commands_processed", s.processed.Load(), "throttle_allowed", s.allowed.Load(),
		"throttle_limited", s.limited.Load(), "throttle_errors", s.failed.Load())
	section("Replication", "role", "master", "connected_slaves", 0)
	c.out.text(b.String())
}
