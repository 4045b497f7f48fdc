package plainhttp

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"testing"
)

// requests are requests of which some are plain.
var requests = []string{
	"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /a/b?c=d&e HTTP/1.1\r\nHost: x:80\r\nuser-agent: y\r\nX-Two: 1\r\nx-two:  2  \r\n\r\nGET /next HTTP/1.1\r\n",
	"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 05\r\n\r\nhello, world",
	"GET /%41?# HTTP/1.1\r\nHost: [::1]:80\r\nConnection: Keep-Alive\r\n\r\n",
	"GET //x/y?z? HTTP/1.1\r\nHost: x\r\nPragma: no-cache\r\n\r\n",
	"PURGE /a;b=c HTTP/1.1\r\nHost: x\r\nCookie: a=b; c=d\r\nEmpty:\r\n\r\n",
	"GET /? HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\nHost: x\n\n",
	"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
	"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
	"GET / HTTP/1.1x\nHost: x\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
}

// FuzzRequest checks that a plain request is what package http reads, to the byte.
func FuzzRequest(f *testing.F) {
	plains := 0
	for _, text := range requests {
		f.Add([]byte(text))
		if _, v := parse([]byte(text)); v == plain {
			plains++
		}
	}
	if plains != 8 {
		f.Fatalf("%d requests are plain, want 8", plains)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, v := parse(bytes.Clone(text))
		if v != plain {
			return
		}
		got := &m.r
		from := bytes.NewReader(text)
		br := bufio.NewReaderSize(from, 1<<20)
		want, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("%q is plain, but package http: %v", text, err)
		}
		gotBody, _ := io.ReadAll(got.Body)
		wantBody, err := io.ReadAll(want.Body)
		if err != nil || !bytes.Equal(gotBody, wantBody) || m.size != len(text)-from.Len()-br.Buffered() {
			t.Errorf("%q: body %q in %d bytes; package http reads %q (%v) in %d", text, gotBody, m.size, wantBody, err, len(text)-from.Len()-br.Buffered())
		}
		if want.TransferEncoding != nil || want.Trailer != nil || want.Close || !want.ProtoAtLeast(1, 1) {
			t.Errorf("%q is plain, but has the transfer encodings %q, trailers %v, close %v, version %s", text, want.TransferEncoding, want.Trailer, want.Close, want.Proto)
		}
		for name := range want.Header {
			if !isToken(name) {
				t.Errorf("%q is plain with the field name %q, which an http.Server refuses", text, name)
			}
		}
		got.Body, want.Body = nil, nil
		want = want.WithContext(got.Context())
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n%+v\n%+v\npackage http:\n%+v\n%+v", text, got, got.URL, want, want.URL)
		}
	})
}

// FuzzBegin checks that no begin of a plain request is taken for another request, and that nothing
// after it changes it.
func FuzzBegin(f *testing.F) {
	for _, text := range requests {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, v := parse(text)
		if v != plain {
			return
		}
		head := m.size - int(m.r.ContentLength)
		for n := 1; n < head; n++ {
			if _, v := parse(text[:n]); v != incomplete {
				t.Fatalf("the first %d bytes of %q are %v, want incomplete", n, text, v)
			}
		}
		if again, v := parse(append(text[:m.size:m.size], "GET"...)); v != plain || again.size != m.size {
			t.Errorf("%q with three bytes more is %v", text, v)
		}
	})
}

var responses = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nServer: x\r\nconnection: keep-alive\r\nContent-Length: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nKeep-Alive: 5\r\n\r\nok",
	"HTTP/1.1 404 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
	"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	"HTTP/1.1 200OK\r\nContent-Length: 2\r\n\r\nok",
}

// FuzzReply checks that a plain response is what package http reads, to the byte.
func FuzzReply(f *testing.F) {
	plains := 0
	for _, text := range responses {
		f.Add(false, []byte(text))
		f.Add(true, []byte(text))
		if new(Reply).Parse("GET", []byte(text)) == Plain {
			plains++
		}
	}
	if plains != 6 {
		f.Fatalf("%d responses are plain, want 6", plains)
	}
	f.Fuzz(func(t *testing.T, head bool, text []byte) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		var got Reply
		if got.Parse(method, text) != Plain {
			return
		}
		from := bytes.NewReader(text)
		br := bufio.NewReaderSize(from, 1<<20)
		want, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%q is plain, but package http: %v", text, err)
		}
		size := len(text) - from.Len() - br.Buffered()
		if got.Status != want.StatusCode || got.Close != want.Close || got.Size != size || want.TransferEncoding != nil || want.Trailer != nil {
			t.Errorf("%q: %+v; package http: %+v in %d bytes", text, got, want, size)
		}
		if want.Body == http.NoBody && got.Length != 0 || want.Body != http.NoBody && int64(got.Length) != want.ContentLength {
			t.Errorf("%q: length %d; package http: %d", text, got.Length, want.ContentLength)
		}
		header := http.Header{}
		for _, f := range got.Fields {
			header.Add(f.Name, f.Value)
		}
		for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te"} {
			want.Header.Del(name)
		}
		if !reflect.DeepEqual(header, want.Header) {
			t.Errorf("%q: %v; package http: %v", text, header, want.Header)
		}
	})
}
