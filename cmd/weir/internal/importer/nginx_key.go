package importer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// A keyMaker builds the key of a policy.
type keyMaker struct {
	*draft
	block   []*nginxconf.Directive // http
	server  string                 // the value of $server_name
	shared  bool                   // other policies have the same key, for other hosts
	present []string               // conditions: if none is true, the key is empty
	always  bool                   // the key is never empty
}

// key sets the key of a zone, or returns why it cannot be expressed. All policies of a
// shared zone have the same key.
func key(d *draft, block []*nginxconf.Directive, z *nginxconf.Zone, serverName string, shared bool) (why string) {
	k := &keyMaker{draft: d, block: block, server: serverName, shared: shared}
	names, literal := z.Variables()
	for _, name := range names {
		if why := k.variable(name); why != "" {
			return why
		}
	}
	if len(d.key) == 0 {
		if literal == "" {
			literal = "all" // of one server
		}
		k.part("const:" + literal)
		k.always = true
	} else if literal != "" {
		k.always = true
	}
	if !k.always && len(k.present) > 0 {
		d.where = append(d.where, either(k.present))
		d.notes = append(d.notes, note{"match", "as in nginx, a request without a value for the key is not limited. Without this condition, all such requests would share one bucket."})
	}
	return ""
}

// part adds a part to the key, once.
func (k *keyMaker) part(p string) {
	if !slices.Contains(k.key, p) {
		k.key = append(k.key, p)
	}
}

// variable adds the part for a variable of nginx, or returns why there is none.
func (k *keyMaker) variable(name string) (why string) {
	source, of, _ := strings.Cut(name, "_")
	switch {
	case name == "binary_remote_addr" || name == "remote_addr":
		k.part("client.ip/128")
	case name == "server_name":
		if k.server != "" {
			k.part("const:" + k.server)
		}
	case name == "host" || name == "http_host":
		k.host()
	case name == "request_method":
		k.part("method")
	case strings.HasPrefix(name, "jwt_claim_") && len(name) > len("jwt_claim_"):
		k.part("claim:" + strings.TrimPrefix(name, "jwt_claim_"))
		k.differs("key", "the token is not verified: a proxy in front must do that, as nginx's auth_jwt did.")
	case source == "http" && of != "":
		header := http.CanonicalHeaderKey(strings.ReplaceAll(of, "_", "-"))
		k.optional("header:"+header, "headers", strings.ToLower(header))
		return ""
	case source == "arg" && of != "":
		k.optional("query:"+of, "query", of)
		return ""
	case source == "cookie" && of != "":
		k.optional("cookie:"+of, "cookies", of)
		return ""
	case name == "uri" || name == "request_uri" || name == "document_uri" || name == "args" || name == "query_string" || name == "request":
		return "a client can spell it in many ways, so it cannot be a key: list the paths in match.paths and use the key part path"
	default:
		if k.exemptions(k.block, name) {
			k.part("client.ip/128")
			break
		}
		return fmt.Sprintf("$%s is not supported. If a map, geo or set defines it, write that as match.where, or as a key part cel:TEXT", name)
	}
	k.always = true
	return ""
}

func (k *keyMaker) host() {
	if k.hosts != nil && !k.shared {
		k.part("host")
		return
	}
	if k.part("cel:request.host"); k.hosts != nil {
		return
	}
	k.notes = append(k.notes, note{"key", "a client can send any host, and each has a bucket: list yours in match.hosts."})
}

// optional adds a part that may have no value.
func (k *keyMaker) optional(part, from, name string) {
	k.part(part)
	k.present = append(k.present, fmt.Sprintf("request.%s[%s] != \"\"", from, cel(name)))
}
