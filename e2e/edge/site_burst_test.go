package edge_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestSiteBurst checks that a burst of requests is not admitted, even by a policy with
// on_store_error: open, whether a worker can decide all of them or not.
func TestSiteBurst(t *testing.T) {
	d := startSite(t, programtest.Weir(t), `policies: [{ name: api, key: client.ip, limits: 1/d }]`, `
    listen ADDR3 http2; http2_max_concurrent_streams 128;
    location / { content_by_lua_block { ngx.say("through") } }`)
	const conns, each = 40, 120
	frame := func(kind, flags byte, stream uint32, text string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(text))<<8|uint32(kind))
		return append(binary.BigEndian.AppendUint32(append(b, flags), stream), text...)
	}
	var burst bytes.Buffer
	for i := range uint32(each) { // GET http://a/
		burst.Write(frame(1, 5, 2*i+1, "\x82\x86\x84\x01\x01a"))
	}
	var all []net.Conn
	for range conns {
		c, err := net.Dial("tcp", d.Address(3))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		c.Write(frame(4, 0, 0, ""))
		all = append(all, c)
	}
	for _, c := range all {
		c.Write(burst.Bytes())
	}
	through, answers := 0, 0
	for _, c := range all {
		for n := 0; n < each; {
			head := make([]byte, 9)
			if _, err := io.ReadFull(c, head); err != nil {
				break
			}
			body := make([]byte, binary.BigEndian.Uint32(head)>>8)
			io.ReadFull(c, body)
			if head[3] == 1 {
				n++
				if len(body) > 0 && body[0] == 0x88 { // :status: 200
					through++
				}
			}
		}
		answers += each
	}
	if through > answers/50 {
		t.Errorf("%d of %d requests were admitted, want one, and at most a few", through, answers)
	}
	t.Logf("%d of %d requests were admitted", through, answers)
	redistest.Await(t, "the refused requests are counted", func() error {
		text := d.ask(t, "GET", "/weir/metrics").body
		refused := strings.Contains(text, `policy="api",outcome="overloaded"`) || strings.Contains(text, `policy="api",outcome="denied"`)
		if !refused || strings.Contains(text, `mode="closed"`) {
			return errors.New("no outcome overloaded or denied, or a mode:\n" + text)
		}
		return nil
	})
}
