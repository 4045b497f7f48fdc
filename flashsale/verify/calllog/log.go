// Package calllog is the log of buyers' calls and their responses. The load generator writes it,
// and the auditor reads it.
package calllog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Call is one call of a buyer and its response. Fields that do not apply are empty.
type Call struct {
	Sent   time.Time `json:"sent"` // true time before the call
	At     time.Time `json:"at"`   // true time of the response, or of the timeout
	User   string    `json:"user,omitempty"`
	Sale   string    `json:"sale,omitempty"`
	Action Action    `json:"action"`
	Status int       `json:"status,omitempty"` // HTTP status; 0: no response

	Layer  string `json:"layer,omitempty"`  // of a refusal
	Reason string `json:"reason,omitempty"` // of a refusal
	State  string `json:"state,omitempty"`  // of the queue status or the receipt

	Ticket string    `json:"ticket,omitempty"` // identifies the ticket: any text that is equal for equal tickets
	Rank   int64     `json:"rank,omitempty"`   // of the ticket, if known
	Ahead  int64     `json:"ahead,omitempty"`
	Poll   int64     `json:"poll_ms,omitempty"` // delay before the next poll in milliseconds
	Token  string    `json:"token,omitempty"`   // Digest of the token that was issued (Join, Poll) or used (Buy)
	Until  time.Time `json:"until,omitzero"`    // expiry of the issued token
	Epoch  int64     `json:"epoch,omitempty"`   // of the issued token, by EpochOf; 0 if unknown

	Receipt string    `json:"receipt,omitempty"` // the whole receipt that was returned or sent
	Granted time.Time `json:"granted,omitzero"`  // the receipt's own time, by the server's clock
	Key     string    `json:"key,omitempty"`     // the Idempotency-Key
	Body    string    `json:"body,omitempty"`    // Digest of the response body
	Payment string    `json:"payment,omitempty"` // the payment's ID
	Misuse  Misuse    `json:"misuse,omitempty"`  // the deliberate error of the call
	Skew    int64     `json:"skew_ms,omitempty"` // how far the buyer's clock is ahead of the true time
	Workers int       `json:"workers,omitempty"` // order writers that a dashboard shows
	Issued  int64     `json:"issued,omitempty"`  // number of calls with equal responses that this line stands for; 1 if 0
}

// An Action is the kind of a call.
type Action string

const (
	Join   Action = "join"   // request a ticket
	Poll   Action = "poll"   // request the queue status
	Buy    Action = "buy"    // reserve a unit with a token
	Look   Action = "look"   // request the state of an order
	Cancel Action = "cancel" // cancel an order
	Pay    Action = "pay"    // pay: the payment provider's call
	Browse Action = "browse" // request a view, the list of sales or the time
	Board  Action = "board"  // request a merchant's dashboard
	Leave  Action = "leave"  // give up the ticket: a record without a call
)

// A Misuse is a deliberate error of a call. Each must be refused, except that a replay may
// return the first response.
type Misuse string

const (
	Valid    Misuse = ""
	Forged   Misuse = "forged"   // a token, ticket, receipt or session with a wrong signature
	Stolen   Misuse = "stolen"   // a token of another user
	Replayed Misuse = "replayed" // a used token
	Early    Misuse = "early"    // before the start
	Late     Misuse = "late"     // a token after its expiry, or a call after the end
)

// maxLine is the maximum length of a line.
const maxLine = 16 << 10

// Digest returns a short digest of a token or body, to compare it.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// A Log writes calls, one JSON object per line. It is safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	w   *bufio.Writer
	err error
}

// NewLog returns a Log that writes to w through a buffer; see Flush.
func NewLog(w io.Writer) *Log { return &Log{w: bufio.NewWriterSize(w, 256<<10)} }

// Record writes calls. Flush returns its error.
func (l *Log) Record(os ...Call) {
	var lines []byte
	var failed error
	for i := range os {
		b, err := json.Marshal(&os[i])
		if err == nil && len(b) >= maxLine {
			err = fmt.Errorf("calllog: call has %d bytes, want less than %d", len(b), maxLine)
		}
		if err != nil {
			failed = err
			continue
		}
		lines = append(append(lines, b...), '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = failed
	}
	if _, err := l.w.Write(lines); err != nil && l.err == nil {
		l.err = fmt.Errorf("calllog: write: %w", err)
	}
}

// Flush writes the buffer and returns the first error of the Log.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Flush(); err != nil && l.err == nil {
		l.err = fmt.Errorf("calllog: write: %w", err)
	}
	return l.err
}

// Read reads a log of calls in order. It ignores an incomplete last line, which a killed
// writer leaves. Any other invalid line is an error with its number.
func Read(r io.Reader) ([]Call, error) {
	in := bufio.NewReaderSize(r, maxLine)
	var all []Call
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return all, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("calllog: line %d: longer than %d bytes", n, maxLine)
		case err != nil:
			return nil, fmt.Errorf("calllog: read: %w", err)
		}
		o, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("calllog: line %d: %w", n, err)
		}
		all = append(all, o)
	}
}

func parse(line []byte) (Call, error) {
	var o Call
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, err
	}
	if _, err := d.Token(); err != io.EOF {
		return o, errors.New("more than one object")
	}
	switch o.Action {
	case Join, Poll, Buy, Look, Cancel, Pay, Browse, Board, Leave:
	default:
		return o, fmt.Errorf("action %q: want join, poll, buy, look, cancel, pay, browse, board or leave", o.Action)
	}
	switch o.Misuse {
	case Valid, Forged, Stolen, Replayed, Early, Late:
	default:
		return o, fmt.Errorf("misuse %q: want forged, stolen, replayed, early or late", o.Misuse)
	}
	switch {
	case o.Sent.IsZero() || o.At.Before(o.Sent):
		return o, fmt.Errorf("sent %s, at %s: want a time, and the response after the call", o.Sent, o.At)
	case o.Status != 0 && (o.Status < 100 || o.Status > 599):
		return o, fmt.Errorf("status %d: want 0 or 100 to 599", o.Status)
	case o.Issued < 0 || o.Ahead < 0 || o.Poll < 0 || o.Workers < 0 || o.Epoch < 0:
		return o, errors.New("negative number")
	}
	return o, nil
}
