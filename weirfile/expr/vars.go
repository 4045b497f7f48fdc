package expr

import (
	"fmt"
	"net/textproto"
	"reflect"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// The names that an expression knows, and the longest value of each in bytes.
const (
	method    = "request.method"
	host      = "request.host"
	path      = "request.path"
	headers   = "request.headers"
	query     = "request.query"
	cookies   = "request.cookies"
	claims    = "claims"
	clientIP  = "client.ip"
	maxMethod = 256
	maxHost   = 256
	maxPath   = 4096
	maxIP     = 45
	maxClaims = 8 // different claims of an expression: each reads the token

	// MaxValue is the maximum length of a header, query parameter or cookie that an
	// expression reads, in bytes. A path may have half of that. A longer value is an
	// error of the evaluation.
	MaxValue = 8192
)

// vars holds the values of one request, which are read on first use.
type vars struct {
	a                       policy.Attributes
	names                   map[string]string // canonical header names, by what the text calls them
	headers, query, cookies lookup
	claims                  lookup
	read                    map[string]ref.Val // claims, by name

	response policy.ResponseValues // nil for an expression about requests
	replied  lookup                // its headers
	body     map[string]any
}

// pool avoids an allocation of vars for each evaluation.
var pool = sync.Pool{New: func() any {
	v := new(vars)
	v.headers, v.query, v.cookies = lookup{v, headers}, lookup{v, query}, lookup{v, cookies}
	v.claims, v.replied = lookup{v, claims}, lookup{v, responseHeaders}
	return v
}}

// Parent implements cel.Activation.
func (v *vars) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (v *vars) ResolveName(name string) (any, bool) {
	switch name {
	case method:
		return text(name, v.a.Method(), maxMethod), true
	case host:
		return text(name, v.a.Host(), maxHost), true
	case path:
		return text(name, v.a.Path(), maxPath), true
	case headers:
		return &v.headers, true
	case query:
		return &v.query, true
	case cookies:
		return &v.cookies, true
	case claims:
		return &v.claims, true
	case status:
		return types.Int(v.response.Status()), true
	case responseHeaders:
		return &v.replied, true
	case body:
		return v.body, true
	case clientIP:
		a := v.a.ClientIP().Unmap().WithZone("")
		if !a.IsValid() {
			return types.String(""), true
		}
		return types.String(a.String()), true
	}
	return nil, false
}

// text returns a value of a request, or an error if it is too long.
func text(name, value string, most int) ref.Val {
	if len(value) > most {
		return types.NewErr("%s has %d bytes, more than the %d that are read", name, len(value), most)
	}
	return types.String(value)
}

// A lookup holds the values of a request by name. It is a map to CEL that cannot be
// listed: check refuses every expression that would.
type lookup struct {
	vars *vars
	kind string
}

func (l *lookup) values(name string) []string {
	switch l.kind {
	case headers, responseHeaders:
		c, ok := l.vars.names[name]
		if !ok {
			c = textproto.CanonicalMIMEHeaderKey(name)
		}
		if l.kind == responseHeaders {
			return l.vars.response.Header(c)
		}
		return l.vars.a.Header(c)
	case query:
		return l.vars.a.Query(name)
	default:
		return l.vars.a.Cookie(name)
	}
}

// Find returns the one value of a name, "" if there is none. Different values are an
// error, since the upstream may use any of them.
func (l *lookup) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	if l.kind == claims {
		return l.vars.claim(string(name)), true
	}
	values := l.values(string(name))
	if len(values) == 0 {
		return types.String(""), true
	}
	value := strings.TrimSpace(values[0])
	for _, other := range values[1:] {
		if strings.TrimSpace(other) != value {
			return types.NewErr("%s has different values for %s", l.kind, fault.Quote(string(name))), false
		}
	}
	if len(value) > MaxValue {
		return text(fmt.Sprintf("%s[%s]", l.kind, fault.Quote(string(name))), value, MaxValue), false
	}
	return types.String(value), true
}

// claim returns the claim with a name, "" if there is none. Loops read it once.
func (v *vars) claim(name string) ref.Val {
	value, ok := v.read[name]
	if !ok {
		if v.read == nil {
			v.read = map[string]ref.Val{}
		}
		value = text("claims["+fault.Quote(name)+"]", policy.KeyPart{Source: policy.Claim, Name: name}.ReadClaim(v.a), MaxValue)
		v.read[name] = value
	}
	return value
}

// Get implements traits.Indexer.
func (l *lookup) Get(key ref.Val) ref.Val {
	v, _ := l.Find(key)
	return v
}

// Contains reports whether a name has a value.
func (l *lookup) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	if l.kind == claims {
		return types.Bool(l.vars.claim(string(name)).Equal(types.String("")) != types.True)
	}
	return types.Bool(len(l.values(string(name))) > 0)
}

// Iterator implements traits.Iterable. It is never called.
func (l *lookup) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, nil).Iterator()
}

// Size implements traits.Sizer, for cost estimates.
func (l *lookup) Size() ref.Val { return types.IntOne }

// ConvertToNative implements ref.Val. It is never called.
func (l *lookup) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s is no value", l.kind)
}

// ConvertToType implements ref.Val. It is never called.
func (l *lookup) ConvertToType(ref.Type) ref.Val { return types.NewErr("%s is no value", l.kind) }

// Equal implements ref.Val. It is never called.
func (l *lookup) Equal(other ref.Val) ref.Val { return types.Bool(l == other) }

// Type implements ref.Val.
func (l *lookup) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (l *lookup) Value() any { return l }
