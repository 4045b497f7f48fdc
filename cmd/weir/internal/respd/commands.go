package respd

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"
)

// throttle is the command that the door is about.
const throttle = "cl.throttle"

// spoken is the version of Redis whose manners the door has, for clients that look.
const spoken = "7.2.0"

// A command is one that the door knows.
type command struct {
	name    string
	arity   int // of arguments with the name; negative: at least so many
	before  bool
	summary string
	run     func(c *conn, args [][]byte)
}

// commands are all commands by name, and their names in order.
func commands() (map[string]*command, []string) {
	all := []command{
		{"auth", -2, true, "Give the password.", (*conn).auth},
		{throttle, -1, false, "Take tokens of a key under a limit.", nil}, // see conn.command
		{"client", -2, false, "Name this connection, or ask for its name or number.", (*conn).client},
		{"command", -1, false, "Say what commands there are.", (*conn).commandCommand},
		{"config", -2, false, "Say what is configured.", (*conn).configCommand},
		{"echo", 2, false, "Repeat a text.", (*conn).echo},
		{"hello", -1, true, "Choose a version of the protocol.", (*conn).hello},
		{"info", -1, false, "Say how the door is.", (*conn).info},
		{"ping", -1, false, "Say whether the door answers.", (*conn).ping},
		{"quit", -1, true, "End the connection.", (*conn).quit},
		{"reset", 1, true, "Make the connection a new one.", (*conn).reset},
		{"select", 2, false, "Choose database 0, the only one.", (*conn).selectDB},
	}
	for _, name := range []string{"multi", "exec", "discard", "watch", "unwatch"} {
		all = append(all, command{name, -1, false, "Not supported.", (*conn).transaction})
	}
	byName := map[string]*command{}
	var names []string
	for i := range all {
		byName[all[i].name] = &all[i]
		if all[i].summary != "Not supported." {
			names = append(names, all[i].name)
		}
	}
	slices.Sort(names)
	return byName, names
}

func (c *conn) ping(args [][]byte) {
	switch len(args) {
	case 1:
		c.simple("PONG")
	case 2:
		c.out = redcon.AppendBulk(c.out, args[1])
	default:
		c.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) echo(args [][]byte) { c.out = redcon.AppendBulk(c.out, args[1]) }

func (c *conn) quit([][]byte) {
	c.ok()
	c.ending = true
}

func (c *conn) reset([][]byte) {
	c.proto, c.name, c.authed = 2, "", c.s.config.Password == ""
	c.in.trusts = c.authed
	c.simple("RESET")
}

func (c *conn) selectDB(args [][]byte) {
	switch n, err := strconv.Atoi(string(args[1])); {
	case err != nil:
		c.fail("ERR value is not an integer or out of range")
	case n != 0:
		c.fail("ERR DB index is out of range")
	default:
		c.ok()
	}
}

func (c *conn) transaction(args [][]byte) {
	c.fail("ERR " + strings.ToUpper(string(args[0])) + " is not supported: every CL.THROTTLE is atomic by itself")
}

// digest makes passwords of one length, so that comparing them takes one time.
func digest(b []byte) [32]byte { return sha256.Sum256(b) }

const wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."

// login checks a password, and reports whether it was right.
func (c *conn) login(user string, password []byte) bool {
	given := digest(password)
	right := subtle.ConstantTimeCompare(given[:], c.s.password[:]) == 1
	if c.s.config.Password == "" {
		right = true // as Redis's user "default" without a password
	}
	if !right || user != "default" {
		c.fail(wrongPassword)
		return false
	}
	c.authed, c.in.trusts = true, true
	return true
}

func (c *conn) auth(args [][]byte) {
	switch {
	case len(args) > 3:
		c.fail("ERR syntax error")
	case len(args) == 2 && c.s.config.Password == "":
		c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case len(args) == 2:
		if c.login("default", args[1]) {
			c.ok()
		}
	default:
		if c.login(string(args[1]), args[2]) {
			c.ok()
		}
	}
}

func (c *conn) hello(args [][]byte) {
	proto, name, named := c.proto, "", false
	if len(args) > 1 {
		n, err := strconv.Atoi(string(args[1]))
		switch {
		case err != nil:
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		case n != 2 && n != 3:
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		proto = n
	}
	var user, password []byte
	asked := false
	for i := 2; i < len(args); i++ {
		switch {
		case equal(args[i], "auth") && i+2 < len(args):
			user, password, asked = args[i+1], args[i+2], true
			i += 2
		case equal(args[i], "setname") && i+1 < len(args):
			name, named = string(args[i+1]), true
			if !isName(name) {
				c.fail(badName)
				return
			}
			i++
		default:
			c.fail("ERR Syntax error in HELLO option '" + shown(args[i]) + "'")
			return
		}
	}
	if asked && !c.login(string(user), password) {
		return
	}
	if !c.authed {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.proto = proto
	if named {
		c.name = name
	}
	c.pairs(7)
	c.bulk("server")
	c.bulk("weir")
	c.bulk("version")
	c.bulk(spoken)
	c.bulk("proto")
	c.number(int64(c.proto))
	c.bulk("id")
	c.number(c.id)
	c.bulk("mode")
	c.bulk("standalone")
	c.bulk("role")
	c.bulk("master")
	c.bulk("modules")
	c.array(0)
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

// isName reports whether s can be the name of a connection.
func isName(s string) bool {
	return len(s) <= maxShown && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}

func (c *conn) client(args [][]byte) {
	sub := strings.ToLower(shown(args[1]))
	arity, known := map[string]int{"setinfo": 4, "setname": 3, "getname": 2, "id": 2, "no-evict": 3, "no-touch": 3}[sub]
	switch {
	case !known:
		c.fail("ERR unknown subcommand '" + shown(args[1]) + "'. Try CLIENT HELP.")
	case len(args) != arity:
		c.fail("ERR wrong number of arguments for 'client|" + sub + "' command")
	case sub == "id":
		c.number(c.id)
	case sub == "getname" && c.name == "":
		c.null()
	case sub == "getname":
		c.bulk(c.name)
	case sub == "setname" && !isName(string(args[2])):
		c.fail(badName)
	case sub == "setname":
		c.name = string(args[2])
		c.ok()
	case sub == "setinfo" && !equal(args[2], "lib-name") && !equal(args[2], "lib-ver"):
		c.fail("ERR Unrecognized option '" + shown(args[2]) + "'")
	default:
		c.ok()
	}
}

// configCommand answers what tools look for before they start.
func (c *conn) configCommand(args [][]byte) {
	sub := strings.ToLower(shown(args[1]))
	switch {
	case sub != "get":
		c.fail("ERR CONFIG " + strings.ToUpper(sub) + " is not supported: the door is configured by weir serve")
		return
	case len(args) < 3:
		c.fail("ERR wrong number of arguments for 'config|get' command")
		return
	}
	var found [][2]string
	for _, p := range [][2]string{
		{"appendonly", "no"}, {"databases", "1"}, {"maxclients", strconv.Itoa(c.s.config.MaxConns)}, {"save", ""},
		{"timeout", strconv.Itoa(max(0, int(c.s.config.IdleTimeout.Seconds())))},
	} {
		for _, pattern := range args[2:] {
			if string(pattern) == "*" || equal(pattern, p[0]) {
				found = append(found, p)
				break
			}
		}
	}
	c.pairs(len(found))
	for _, p := range found {
		c.bulk(p[0])
		c.bulk(p[1])
	}
}
