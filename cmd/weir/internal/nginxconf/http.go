package nginxconf

import "slices"

// An HTTP holds the servers and limits of an nginx.conf.
type HTTP struct {
	// Block is the content of the http blocks.
	Block []*Directive
	// Servers are in the order of the file. Without a server block there is one without
	// a directive.
	Servers []*Server

	zones map[string]*Zone
}

// A Scope is a server, or a location in one, with its limits.
type Scope struct {
	*Location            // the zero Location is the server itself
	Directive *Directive // nil if there is no server block
	Uses      []Use
	Setting   Setting
	Answers   bool // by return, before there are limits
	Unmatched bool // no request gets here by its path
}

// Limits returns the limits of a file. A file without an http block is read as the
// content of one.
func Limits(root []*Directive) (*HTTP, error) {
	h := &HTTP{Block: root, zones: map[string]*Zone{}}
	if blocks := Find(root, "http"); len(blocks) > 0 {
		h.Block = nil
		for _, b := range blocks {
			h.Block = append(h.Block, b.Block...)
		}
	}
	for _, d := range h.Block {
		if d.Name == "limit_req_zone" || d.Name == "limit_conn_zone" {
			if err := h.zone(d); err != nil {
				return nil, err
			}
		}
	}
	outer := &Scope{Location: &Location{}, Setting: Setting{Status: 503, ConnStatus: 503}}
	if err := h.level(h.Block, outer, outer); err != nil {
		return nil, err
	}
	for _, d := range Find(h.Block, "server") {
		if !d.IsBlock() {
			continue
		}
		s, err := h.server(d, outer)
		if err != nil {
			return nil, err
		}
		h.Servers = append(h.Servers, s)
	}
	if len(h.Servers) == 0 {
		h.Servers = []*Server{{Scopes: []*Scope{outer}, listens: []string{"80"}}}
	}
	return h, nil
}

// level reads the limits of a block into s. It inherits those that the block does not
// set.
func (h *HTTP) level(block []*Directive, s, around *Scope) error {
	s.Setting = around.Setting
	var req, conn []Use
	for _, d := range block {
		var err error
		switch d.Name {
		case "limit_req":
			req, err = h.use(d, req)
		case "limit_conn":
			conn, err = h.use(d, conn)
		case "limit_req_status":
			s.Setting.Status, err = status(d)
		case "limit_conn_status":
			s.Setting.ConnStatus, err = status(d)
		case "limit_req_dry_run":
			s.Setting.Dry, err = flag(d)
		case "limit_conn_dry_run":
			s.Setting.ConnDry, err = flag(d)
		case "return":
			s.Answers = true
		}
		if err != nil {
			return err
		}
	}
	if req == nil {
		req = slices.DeleteFunc(slices.Clone(around.Uses), func(u Use) bool { return u.Zone.Conn })
	}
	if conn == nil {
		conn = slices.DeleteFunc(slices.Clone(around.Uses), func(u Use) bool { return !u.Zone.Conn })
	}
	s.Uses = slices.Concat(req, conn)
	return nil
}

// server reads a server block with its locations.
func (h *HTTP) server(d *Directive, around *Scope) (*Server, error) {
	s := newServer(d)
	top := &Scope{Location: &Location{}, Directive: d}
	if err := h.level(d.Block, top, around); err != nil {
		return nil, err
	}
	if s.Answers = top.Answers; s.Answers {
		return s, nil
	}
	s.Scopes = append(s.Scopes, top)
	err := h.locations(d.Block, top, s)
	lessen(s.Scopes)
	for _, o := range s.Scopes {
		if o.Kind == Prefix && o.Pattern == "/" {
			top.Unmatched = true // every path gets there
		}
	}
	return s, err
}

// locations reads the locations of a block, and those within them.
func (h *HTTP) locations(block []*Directive, around *Scope, s *Server) error {
	for _, d := range Find(block, "location") {
		if !d.IsBlock() {
			continue
		}
		l, err := newLocation(d, around.Location)
		if err != nil {
			return err
		}
		l.order = len(s.Scopes)
		one := &Scope{Location: l, Directive: d, Unmatched: l.Kind == Named}
		if err := h.level(d.Block, one, around); err != nil {
			return err
		}
		if one.Answers {
			one.Uses = nil
		}
		s.Scopes = append(s.Scopes, one)
		if err := h.locations(d.Block, one, s); err != nil {
			return err
		}
	}
	return nil
}
