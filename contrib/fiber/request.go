package weirfiber

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// request is the request of c for net/http, without its body, which nobody reads here.
// It has copies of what it needs: fasthttp uses its memory again.
func request(c fiber.Ctx) (*http.Request, error) {
	ctx := c.RequestCtx()
	target, _, _ := strings.Cut(string(ctx.RequestURI()), "#")
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	// The path and the query are those that fiber goes by: without a fragment, which
	// fasthttp takes off a target, and as a middleware outside has rewritten them.
	u.RawPath, u.RawQuery = string(ctx.URI().PathOriginal()), string(ctx.URI().QueryString())
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: string(ctx.Method()), URL: u, RequestURI: target,
		Proto: string(ctx.Request.Header.Protocol()),
		Host:  string(ctx.Host()), RemoteAddr: ctx.RemoteAddr().String(),
		Header: http.Header{}, Body: http.NoBody, ContentLength: int64(ctx.Request.Header.ContentLength()),
		TLS: ctx.TLSConnectionState(),
	}
	r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(r.Proto)
	for name, value := range ctx.Request.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	r.Header.Del("Host")
	return r.WithContext(c.Context()), nil
}

// replace makes h, which is that of from, that of to.
func replace(h *fasthttp.RequestHeader, from, to http.Header) {
	for name := range from {
		if len(to[name]) == 0 {
			h.Del(name)
		}
	}
	for name, values := range to {
		if slices.Equal(values, from[name]) {
			continue
		}
		h.Del(name)
		for _, v := range values {
			h.Add(name, v)
		}
	}
}
