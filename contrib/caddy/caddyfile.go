package weircaddy

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// init registers the module and its directive. Caddy finds neither without it.
func init() {
	caddy.RegisterModule(Handler{})
	httpcaddyfile.RegisterHandlerDirective("weir", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("weir", httpcaddyfile.Before, "basic_auth")
}

// CaddyModule returns the name of the module.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.weir", New: func() caddy.Module { return new(Handler) }}
}

// UnmarshalCaddyfile reads the directive. The file is in its block, because Caddy would take a
// first argument with a slash for a path to match:
//
//	weir [MATCHER] {
//		file  PATH
//		store URL
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.Errf("got %q, want a block with file", d.Val())
	}
	fields := map[string]*string{"file": &h.File, "store": &h.Store}
	for d.NextBlock(0) {
		name := d.Val()
		switch field := fields[name]; {
		case field == nil:
			return d.Errf("got %q, want file or store", name)
		case *field != "":
			return d.Errf("%s: got it twice", name)
		case !d.AllArgs(field):
			return d.Errf("%s: want one value", name)
		}
	}
	if h.File == "" {
		return d.Err("file: got nothing, want the path of a policy file")
	}
	return nil
}
