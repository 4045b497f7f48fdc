// Package index finds the policies that can match a request by its host, path and method,
// without a look at the others.
//
// Policies are stored in a tree of paths for each host pattern. A lookup visits the tree of
// the host, those of the wildcards above it and that of any host, once for each variant of
// the path. Its time depends on the length of the host and the path, and on the number of
// policies found.
package index

import (
	"slices"
	"strings"

	"github.com/floodweir/weir/policy/internal/spelling"
)

// maxPairs is the largest number of pairs of a host and a path that are stored for one
// policy. A policy with more pairs is stored by its paths only.
const maxPairs = 1024

// An Index has policies by number. It is safe for concurrent use after the last Add. The
// zero value is empty.
type Index struct {
	any   node             // policies of any host
	hosts map[string]*node // policies of one host
	below label            // policies of all hosts below a name
}

// A label is a part of a host name. Labels are read from the end of the name.
type label struct {
	next  map[string]*label
	paths *node // policies of all hosts below the name that ends here, or nil
}

// A node is a segment of a path.
type node struct {
	next map[string]*node // by segment
	any  *node            // for any one segment, or nil
	here []entry          // the pattern ends here
	rest []entry          // anything may follow
}

type entry struct {
	policy  int32
	methods methods
}

// Add adds a policy with a number higher than those before. An empty list is any host, any
// path or any method; methods are in upper case.
func (x *Index) Add(policy int, hosts []spelling.Host, paths []spelling.Path, methods []string) {
	e := entry{int32(policy), setOf(methods)}
	if len(hosts) == 0 || len(hosts)*max(1, len(paths)) > maxPairs {
		x.any.add(paths, e)
		return
	}
	for i := range hosts {
		x.tree(&hosts[i]).add(paths, e)
	}
}

// tree returns the tree of paths of a host pattern.
func (x *Index) tree(h *spelling.Host) *node {
	if !h.Below {
		return child(&x.hosts, h.Name)
	}
	at := &x.below
	for name, more := h.Name, true; more; {
		i := strings.LastIndexByte(name, '.')
		at = child(&at.next, name[i+1:])
		if more = i >= 0; more {
			name = name[:i]
		}
	}
	if at.paths == nil {
		at.paths = new(node)
	}
	return at.paths
}

// child returns the value of a name, which it adds if it is missing.
func child[T any](of *map[string]*T, name string) *T {
	if *of == nil {
		*of = map[string]*T{}
	}
	if (*of)[name] == nil {
		(*of)[name] = new(T)
	}
	return (*of)[name]
}

func (n *node) add(paths []spelling.Path, e entry) {
	if len(paths) == 0 {
		n.rest = append(n.rest, e)
	}
	for i := range paths {
		at := n
		segments, rest := paths[i].Segments()
		for _, s := range segments {
			if s != "" {
				at = child(&at.next, s)
				continue
			}
			if at.any == nil {
				at.any = new(node)
			}
			at = at.any
		}
		if rest {
			at.rest = append(at.rest, e)
		} else {
			at.here = append(at.here, e)
		}
	}
}

// Find appends to found, which is empty, the numbers of all policies that can match a
// request, in ascending order and each once. The host is one of spelling.HostName.
func (x *Index) Find(found []int32, host string, paths *spelling.PathVariants, method string) []int32 {
	m := of(method)
	for i := range paths.N {
		path := paths.At(i)
		found = x.any.find(found, path, m)
		if n := x.hosts[host]; n != nil {
			found = n.find(found, path, m)
		}
		// A wildcard requires a name before the dot, so the first character is no dot of one.
		at := &x.below
		for end := len(host); at.next != nil; {
			dot := strings.LastIndexByte(host[:end], '.')
			if dot < 1 {
				break
			}
			if at = at.next[host[dot+1:end]]; at == nil {
				break
			}
			if at.paths != nil {
				found = at.paths.find(found, path, m)
			}
			end = dot
		}
	}
	if len(found) < 2 {
		return found
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// find appends the policies of n and below it whose patterns match the rest of a path.
func (n *node) find(found []int32, path string, m methods) []int32 {
	for {
		found = appendOf(found, n.rest, m)
		if path == "" {
			return appendOf(found, n.here, m)
		}
		if n.next == nil && n.any == nil {
			return found
		}
		end := strings.IndexByte(path[1:], '/') + 1
		if end == 0 {
			end = len(path)
		}
		next := n.next[path[1:end]]
		path = path[end:]
		if n.any != nil {
			found = n.any.find(found, path, m)
		}
		if next == nil {
			return found
		}
		n = next
	}
}

func appendOf(found []int32, entries []entry, m methods) []int32 {
	for i := range entries {
		if entries[i].methods&m != 0 {
			found = append(found, entries[i].policy)
		}
	}
	return found
}
