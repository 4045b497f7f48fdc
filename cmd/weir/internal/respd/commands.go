package respd

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strconv"
	"strings"
)

// throttle is the command that clients of this interface come for.
const throttle = "cl.throttle"

// redisVersion is the version of Redis that replies imitate, for clients that check it.
const redisVersion = "7.2.0"

// A command is one supported command.
type command struct {
	name       string
	arity      int // of arguments with the name; negative: at least so many
	beforeAuth bool
	summary    string
	run        func(c *conn, args [][]byte)
}

// commands returns all commands by name, and their names in order.
func commands() (map[string]*command, []string) {
	all := []command{
		{"auth", -2, true, "Authenticate the connection.", (*conn).auth},
		{throttle, -1, false, "Consume tokens of a key under a limit.", nil}, // see conn.command
		{"client", -2, false, "Set or return the name of the connection, or return its ID.", (*conn).client},
		{"command", -1, false, "List the commands.", (*conn).commandCommand},
		{"config", -2, false, "Return the configuration.", (*conn).configCommand},
		{"echo", 2, false, "Return the argument.", (*conn).echo},
		{"hello", -1, true, "Select the version of the protocol.", (*conn).hello},
		{"info", -1, false, "Return statistics of the server.", (*conn).info},
		{"ping", -1, false, "Return PONG.", (*conn).ping},
		{"quit", -1, true, "Close the connection.", (*conn).quit},
		{"reset", 1, true, "Reset the state of the connection.", (*conn).reset},
		{"select", 2, false, "Select database 0, the only one.", (*conn).selectDB},
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
		c.out.simple("PONG")
	case 2:
		c.out.bulk(string(args[1]))
	default:
		c.out.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) echo(args [][]byte) { c.out.bulk(string(args[1])) }

func (c *conn) quit([][]byte) {
	c.out.ok()
	c.closing = true
}

func (c *conn) reset([][]byte) {
	c.out.proto, c.name, c.authenticated = 2, "", c.s.config.Password == ""
	c.in.authenticated = c.authenticated
	c.out.simple("RESET")
}

func (c *conn) selectDB(args [][]byte) {
	switch n, err := strconv.Atoi(string(args[1])); {
	case err != nil:
		c.out.fail("ERR value is not an integer or out of range")
	case n != 0:
		c.out.fail("ERR DB index is out of range")
	default:
		c.out.ok()
	}
}

func (c *conn) transaction(args [][]byte) {
	c.out.fail("ERR " + strings.ToUpper(string(args[0])) + " is not supported: every CL.THROTTLE is atomic by itself")
}

const wrongPassword = "WRONGPASS invalid username-password pair or user is disabled."

// login checks a password and reports whether it was right.
func (c *conn) login(user string, password []byte) bool {
	given := sha256.Sum256(password) // comparing two hashes takes the same time for every length
	right := subtle.ConstantTimeCompare(given[:], c.s.password.Load()[:]) == 1
	if c.s.config.Password == "" {
		right = true // as in Redis, where the user "default" then has no password
	}
	if !right || user != "default" {
		c.out.fail(wrongPassword)
		return false
	}
	c.authenticated, c.in.authenticated = true, true
	return true
}

func (c *conn) auth(args [][]byte) {
	switch {
	case len(args) > 3:
		c.out.fail("ERR syntax error")
	case len(args) == 2 && c.s.config.Password == "":
		c.out.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case len(args) == 2:
		if c.login("default", args[1]) {
			c.out.ok()
		}
	default:
		if c.login(string(args[1]), args[2]) {
			c.out.ok()
		}
	}
}

func (c *conn) hello(args [][]byte) {
	proto, name, named := c.out.proto, "", false
	if len(args) > 1 {
		n, err := strconv.Atoi(string(args[1]))
		switch {
		case err != nil:
			c.out.fail("ERR Protocol version is not an integer or out of range")
			return
		case n != 2 && n != 3:
			c.out.fail("NOPROTO unsupported protocol version")
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
			if !validName(name) {
				c.out.fail(errBadName)
				return
			}
			i++
		default:
			c.out.fail("ERR Syntax error in HELLO option '" + shown(args[i]) + "'")
			return
		}
	}
	if asked && !c.login(string(user), password) {
		return
	}
	if !c.authenticated {
		c.out.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.out.proto = proto
	if named {
		c.name = name
	}
	c.out.pairs(7)
	c.out.bulk("server")
	c.out.bulk("weir")
	c.out.bulk("version")
	c.out.bulk(redisVersion)
	c.out.bulk("proto")
	c.out.number(int64(c.out.proto))
	c.out.bulk("id")
	c.out.number(c.id)
	c.out.bulk("mode")
	c.out.bulk("standalone")
	c.out.bulk("role")
	c.out.bulk("master")
	c.out.bulk("modules")
	c.out.array(0)
}

const errBadName = "ERR Client names cannot contain spaces, newlines or special characters."

// validName reports whether s can name a connection.
func validName(s string) bool {
	return len(s) <= maxShown && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}

func (c *conn) client(args [][]byte) {
	sub := strings.ToLower(shown(args[1]))
	arity, known := map[string]int{"setinfo": 4, "setname": 3, "getname": 2, "id": 2, "no-evict": 3, "no-touch": 3}[sub]
	switch {
	case !known:
		c.out.fail("ERR unknown subcommand '" + shown(args[1]) + "'. Try CLIENT HELP.")
	case len(args) != arity:
		c.out.fail("ERR wrong number of arguments for 'client|" + sub + "' command")
	case sub == "id":
		c.out.number(c.id)
	case sub == "getname" && c.name == "":
		c.out.null()
	case sub == "getname":
		c.out.bulk(c.name)
	case sub == "setname" && !validName(string(args[2])):
		c.out.fail(errBadName)
	case sub == "setname":
		c.name = string(args[2])
		c.out.ok()
	case sub == "setinfo" && !equal(args[2], "lib-name") && !equal(args[2], "lib-ver"):
		c.out.fail("ERR Unrecognized option '" + shown(args[2]) + "'")
	default:
		c.out.ok()
	}
}

// configCommand answers CONFIG GET, which tools send before they start.
func (c *conn) configCommand(args [][]byte) {
	sub := strings.ToLower(shown(args[1]))
	switch {
	case sub != "get":
		c.out.fail("ERR CONFIG " + strings.ToUpper(sub) + " is not supported: weir serve configures this interface")
		return
	case len(args) < 3:
		c.out.fail("ERR wrong number of arguments for 'config|get' command")
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
	c.out.pairs(len(found))
	for _, p := range found {
		c.out.bulk(p[0])
		c.out.bulk(p[1])
	}
}
