package redismodel

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// A VM runs scripts. Servers may share one. It is not safe for concurrent use.
type VM struct {
	state  *lua.LState
	protos map[string]*lua.FunctionProto // by SHA-1
	bad    map[string]error              // scripts that do not compile
	server *Server                       // of the script in progress
}

// NewVM returns a virtual machine with the libraries that Redis gives to scripts.
func NewVM() *VM {
	vm := &VM{
		state:  lua.NewState(lua.Options{SkipOpenLibs: true}),
		protos: map[string]*lua.FunctionProto{},
		bad:    map[string]error{},
	}
	l := vm.state
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.StringLibName, lua.OpenString}, {lua.MathLibName, lua.OpenMath}} {
		l.Push(l.NewFunction(lib.open))
		l.Push(lua.LString(lib.name))
		l.Call(1, 0)
	}
	for name, functions := range map[string]map[string]lua.LGFunction{
		"redis":  {"call": vm.call, "pcall": vm.pcall},
		"struct": {"pack": pack, "unpack": unpack},
		"cjson":  {"decode": decode},
	} {
		l.SetGlobal(name, l.SetFuncs(l.NewTable(), functions))
	}
	text := l.GetGlobal(lua.StringLibName).(*lua.LTable)
	text.RawSetString("match", l.NewFunction(decimal(text.RawGetString("match").(*lua.LFunction).GFunction)))
	return vm
}

// decimal removes leading zeros from the numbers that string.match returns. Adding to such a
// text reads it as decimal in Lua 5.1, but as octal in this virtual machine.
func decimal(match lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		n := match(l)
		for i := l.GetTop() - n + 1; i <= l.GetTop(); i++ {
			text, ok := l.Get(i).(lua.LString)
			if ok && len(text) > 1 && strings.Trim(string(text), "0123456789") == "" {
				l.Replace(i, lua.LString(strings.TrimLeft(string(text[:len(text)-1]), "0")+string(text[len(text)-1:])))
			}
		}
		return n
	}
}

// load compiles a script and returns its SHA-1.
func (vm *VM) load(script string) string {
	sum := sha1.Sum([]byte(script))
	sha := hex.EncodeToString(sum[:])
	if vm.protos[sha] == nil && vm.bad[sha] == nil {
		chunk, err := parse.Parse(strings.NewReader(script), "script")
		if err == nil {
			vm.protos[sha], err = lua.Compile(chunk, "script")
		}
		if err != nil {
			vm.bad[sha] = err
		}
	}
	return sha
}

// run runs a loaded script.
func (vm *VM) run(s *Server, sha string, keys, args []string) any {
	if err := vm.bad[sha]; err != nil {
		return Error("ERR Error compiling script: " + err.Error())
	}
	l := vm.state
	vm.server = s
	l.SetGlobal("KEYS", table(l, keys))
	l.SetGlobal("ARGV", table(l, args))
	l.Push(l.NewFunctionFromProto(vm.protos[sha]))
	if err := l.PCall(0, 1, nil); err != nil {
		return scriptError(err)
	}
	v := l.Get(-1)
	l.Pop(1)
	return reply(v)
}

// scriptError returns the reply for an error of a script.
func scriptError(err error) Error {
	msg := err.Error()
	if e, ok := err.(*lua.ApiError); ok && e.Object != nil {
		if t, ok := e.Object.(*lua.LTable); ok {
			return Error(lua.LVAsString(t.RawGetString("err")))
		}
		msg = e.Object.String()
	}
	return Error("ERR " + msg)
}

func table(l *lua.LState, texts []string) *lua.LTable {
	t := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// reply returns the reply for a value that a script returned.
func reply(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v)
	case *lua.LTable:
		if e := v.RawGetString("err"); e != lua.LNil {
			return Error(lua.LVAsString(e))
		}
		out := []any{}
		for i := 1; i <= v.Len(); i++ {
			out = append(out, reply(v.RawGetInt(i)))
		}
		return out
	case lua.LBool:
		if v {
			return int64(1)
		}
	}
	return nil
}

// luaValue returns the Lua value of a reply to a command.
func luaValue(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case status:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, e := range r {
			t.Append(luaValue(l, e))
		}
		return t
	case Error:
		t := l.NewTable()
		t.RawSetString("err", lua.LString(r))
		return t
	}
	return lua.LFalse
}

// command runs the command of a call, with the texts that Redis makes of Lua's numbers.
func (vm *VM) command(l *lua.LState) any {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = number(float64(v))
		default:
			return Error("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	return vm.server.do(args)
}

func (vm *VM) call(l *lua.LState) int {
	v := luaValue(l, vm.command(l))
	if t, ok := v.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
		l.Error(t, 0)
	}
	l.Push(v)
	return 1
}

func (vm *VM) pcall(l *lua.LState) int {
	l.Push(luaValue(l, vm.command(l)))
	return 1
}

// widths returns the widths of the fields of a format: integers of 8, 4 and 2 bytes, and texts that
// end with a zero, whose width is 0.
func widths(l *lua.LState) (ns []int) {
	format := l.CheckString(1)
	for rest := strings.TrimPrefix(format, "<"); rest != ""; {
		field := rest[:min(2, len(rest))]
		switch field {
		case "i8":
			ns = append(ns, 8)
		case "I4":
			ns = append(ns, 4)
		case "I2":
			ns = append(ns, 2)
		case "s":
			ns = append(ns, 0)
		default:
			l.RaiseError("struct: format %q is not modelled", format)
		}
		rest = rest[len(field):]
	}
	return ns
}

func pack(l *lua.LState) int {
	var b []byte
	for i, n := range widths(l) {
		v := uint64(int64(l.CheckNumber(2 + i)))
		b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:n]...)
	}
	l.Push(lua.LString(b))
	return 1
}

// unpack returns the fields and the position after them. Like Redis, it makes doubles of
// them.
func unpack(l *lua.LState) int {
	fields := widths(l)
	text, from := l.CheckString(2), 0
	if l.GetTop() > 2 {
		from = l.CheckInt(3) - 1
	}
	for _, n := range fields {
		if n == 0 {
			end := strings.IndexByte(text[min(from, len(text)):], 0)
			if end < 0 {
				l.RaiseError("unfinished string in data")
			}
			l.Push(lua.LString(text[from : from+end]))
			from += end + 1
			continue
		}
		if from < 0 || len(text)-from < n {
			l.RaiseError("data string too short")
		}
		var b [8]byte
		copy(b[:], text[from:from+n])
		l.Push(lua.LNumber(int64(binary.LittleEndian.Uint64(b[:]))))
		from += n
	}
	l.Push(lua.LNumber(from + 1))
	return len(fields) + 1
}

func decode(l *lua.LState) int {
	var v any
	if err := json.Unmarshal([]byte(l.CheckString(1)), &v); err != nil {
		l.RaiseError("Expected value but found invalid token")
	}
	l.Push(fromJSON(l, v))
	return 1
}

func fromJSON(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, e := range v {
			t.Append(fromJSON(l, e))
		}
		return t
	case nil:
		return lua.LNil
	}
	l.RaiseError("cjson: %s is not modelled", fmt.Sprintf("%T", v))
	return lua.LNil
}
