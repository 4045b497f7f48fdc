package respd

import "github.com/tidwall/redcon"

// An encoder appends replies to buf, in RESP2 or RESP3.
type encoder struct {
	buf   []byte
	proto int // 2 or 3
}

func (e *encoder) fail(text string) { e.buf = redcon.AppendError(e.buf, text) }
func (e *encoder) ok()              { e.buf = redcon.AppendString(e.buf, "OK") }
func (e *encoder) bulk(s string)    { e.buf = redcon.AppendBulkString(e.buf, s) }
func (e *encoder) number(n int64)   { e.buf = redcon.AppendInt(e.buf, n) }
func (e *encoder) array(n int)      { e.buf = redcon.AppendArray(e.buf, n) }
func (e *encoder) simple(s string)  { e.buf = redcon.AppendString(e.buf, s) }

// pairs begins a map of n pairs.
func (e *encoder) pairs(n int) {
	at := len(e.buf)
	if e.proto == 2 {
		n *= 2
	}
	if e.buf = redcon.AppendArray(e.buf, n); e.proto == 3 {
		e.buf[at] = '%'
	}
}

// set begins a set of n members.
func (e *encoder) set(n int) {
	at := len(e.buf)
	if e.buf = redcon.AppendArray(e.buf, n); e.proto == 3 {
		e.buf[at] = '~'
	}
}

func (e *encoder) null() {
	if e.proto == 3 {
		e.buf = append(e.buf, "_\r\n"...)
		return
	}
	e.buf = redcon.AppendNull(e.buf)
}

// text appends a string that clients print unchanged.
func (e *encoder) text(s string) {
	if e.proto == 2 {
		e.bulk(s)
		return
	}
	at := len(e.buf)
	e.buf = redcon.AppendBulkString(e.buf, "txt:"+s)
	e.buf[at] = '='
}
