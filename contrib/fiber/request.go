package weirfiber

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// request returns the request of c for net/http, without its body. It copies what it needs,
// because fasthttp reuses its memory.
func request(c fiber.Ctx) (*http.Request, error) {
	ctx := c.RequestCtx()
	target, _, _ := strings.Cut(string(ctx.RequestURI()), "#")
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	// Path and query are those that fiber uses: without the fragment, which fasthttp
	// removes, and as outer middlewares have rewritten them.
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

// replace makes the header of from that of to.
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
