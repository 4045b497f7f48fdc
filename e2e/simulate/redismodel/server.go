package redismodel

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Server is one Redis with its data. It is not safe for concurrent use.
type Server struct {
	// Now returns the time in µs since the epoch.
	Now func() int64
	// Wrote, if not nil, is called for every write of a key.
	Wrote func(key string)

	vm      *VM
	data    map[string]*value
	scripts map[string]bool // the SHA-1s of cached scripts
	frozen  int64           // the time of the command in progress, µs

	lag     []change // writes that the replica has not applied yet, in order
	replica map[string]*value
}

// A change is a write on its way to the replica.
type change struct {
	due int64 // when it arrives, in the caller's unit of time
	key string
	to  *value
}

// NewServer returns an empty server that runs scripts on vm.
func NewServer(vm *VM, now func() int64) *Server {
	return &Server{Now: now, vm: vm, data: map[string]*value{}, scripts: map[string]bool{}, replica: map[string]*value{}}
}

// Do runs one command with its arguments. The reply has the elements of an array, or a single
// text. EVAL and EVALSHA run the script with the keys and arguments that follow.
func (s *Server) Do(args []string) (items []string, err error) {
	s.frozen = s.Now()
	var reply any
	switch name := strings.ToUpper(args[0]); name {
	case "EVAL", "EVALSHA":
		reply = s.eval(name == "EVAL", args)
	default:
		reply = s.do(args)
	}
	switch r := reply.(type) {
	case Error:
		return nil, r
	case []any:
		for _, e := range r {
			items = append(items, text(e))
		}
		return items, nil
	}
	return []string{text(reply)}, nil
}

func (s *Server) eval(whole bool, args []string) any {
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 0 || n > len(args)-3 {
		return badNumber
	}
	sha := args[1]
	if whole {
		sha = s.vm.load(args[1])
		s.scripts[sha] = true
	} else if !s.scripts[sha] {
		return Error("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.vm.run(s, sha, args[3:3+n], args[3+n:])
}

// text returns an element of a reply as a client's text.
func text(reply any) string {
	switch r := reply.(type) {
	case string:
		return r
	case status:
		return string(r)
	case int64:
		return strconv.FormatInt(r, 10)
	case Error:
		return string(r)
	}
	return ""
}

// get returns the value of a key that has not expired.
func (s *Server) get(key string) *value {
	v := s.data[key]
	if v != nil && v.expiry != 0 && s.frozen/1000 > v.expiry {
		s.put(key, nil)
		return nil
	}
	return v
}

func (s *Server) put(key string, v *value) {
	if v == nil {
		delete(s.data, key)
	} else {
		s.data[key] = v
	}
	s.lag = append(s.lag, change{key: key, to: v})
	if s.Wrote != nil {
		s.Wrote(key)
	}
}

// shrink stores a value after removed elements were removed; left remain.
func (s *Server) shrink(key string, v *value, removed, left int) {
	switch {
	case removed == 0:
	case left == 0:
		s.put(key, nil)
	default:
		s.put(key, v)
	}
}

// Has reports whether a key exists.
func (s *Server) Has(key string) bool {
	s.frozen = s.Now()
	return s.get(key) != nil
}

// Keys returns the names of all keys that have not expired, sorted.
func (s *Server) Keys() []string {
	s.frozen = s.Now()
	names := slices.Sorted(maps.Keys(s.data))
	return slices.DeleteFunc(names, func(key string) bool { return s.get(key) == nil })
}

// TTL returns the milliseconds until a key expires; -1 without a TTL, -2 without a key.
func (s *Server) TTL(key string) int64 {
	s.frozen = s.Now()
	switch v := s.get(key); {
	case v == nil:
		return -2
	case v.expiry == 0:
		return -1
	default:
		return v.expiry - s.frozen/1000
	}
}

// Evict deletes a key, as Redis does when its memory is full.
func (s *Server) Evict(key string) {
	s.frozen = s.Now()
	s.put(key, nil)
}

// FlushScripts empties the cache of scripts.
func (s *Server) FlushScripts() { clear(s.scripts) }

// Move gives a key with its TTL to another server, as MIGRATE does.
func (s *Server) Move(key string, to *Server) {
	s.frozen, to.frozen = s.Now(), to.Now()
	v := s.get(key)
	if v == nil {
		return
	}
	c := *v
	if c.expiry != 0 {
		c.expiry += to.frozen/1000 - s.frozen/1000 // MIGRATE sends the rest of the TTL
	}
	to.put(key, &c)
	s.put(key, nil)
}

// Stamp gives the writes since the last Stamp the time at which they arrive at the replica.
func (s *Server) Stamp(due int64) {
	for i := len(s.lag) - 1; i >= 0 && s.lag[i].due == 0; i-- {
		s.lag[i].due = due
	}
}

// Replicate applies the writes that have arrived at the replica by now.
func (s *Server) Replicate(now int64) {
	n := 0
	for n < len(s.lag) && s.lag[n].due <= now {
		c := s.lag[n]
		if c.to == nil {
			delete(s.replica, c.key)
		} else {
			s.replica[c.key] = c.to
		}
		n++
	}
	s.lag = slices.Delete(s.lag, 0, n)
}

// Failover makes the replica the primary. It returns the keys whose last writes are lost,
// sorted. The new primary has an empty cache of scripts.
func (s *Server) Failover() (lost []string) {
	for _, c := range s.lag {
		if !slices.Contains(lost, c.key) {
			lost = append(lost, c.key)
		}
	}
	slices.Sort(lost)
	s.data, s.lag = maps.Clone(s.replica), nil
	clear(s.scripts)
	return lost
}

// Split promotes the replica while the primary continues, and returns the former primary. It
// has no replica.
func (s *Server) Split() (former *Server) {
	c := *s
	former = &c
	former.replica, former.lag = map[string]*value{}, nil
	s.scripts = map[string]bool{}
	s.Failover()
	return former
}

// Slot returns the slot of a key in a cluster: CRC-16/XMODEM of its hash tag, mod 16384.
func Slot(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if end := strings.IndexByte(key[open+1:], '}'); end > 0 {
			key = key[open+1 : open+1+end]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}

// Keep deletes the keys of the server and of its replica that keep does not select.
func (s *Server) Keep(keep func(key string) bool) {
	for _, data := range []map[string]*value{s.data, s.replica} {
		maps.DeleteFunc(data, func(key string, _ *value) bool { return !keep(key) })
	}
}
