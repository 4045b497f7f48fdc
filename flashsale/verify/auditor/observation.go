package auditor

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

// An Observation is one call of a buyer and its answer, as the buyer saw it. Fields that
// the call has nothing of are left empty.
type Observation struct {
	Sent   time.Time `json:"sent"` // by the true clock: before the call
	At     time.Time `json:"at"`   // by the true clock: when its answer had come, or it was given up
	User   string    `json:"user,omitempty"`
	Sale   string    `json:"sale,omitempty"`
	Action Action    `json:"action"`
	Status int       `json:"status,omitempty"` // of HTTP; 0: no answer came

	Layer  string `json:"layer,omitempty"`  // of a refusal
	Reason string `json:"reason,omitempty"` // of a refusal
	State  string `json:"state,omitempty"`  // of the turn or the receipt that was answered

	Place string    `json:"place,omitempty"` // what names the ticket: any word, always the same for the same ticket
	Rank  int64     `json:"rank,omitempty"`  // of the ticket, if it is known
	Ahead int64     `json:"ahead,omitempty"`
	Poll  int64     `json:"poll_ms,omitempty"` // after how many milliseconds to ask again
	Token string    `json:"token,omitempty"`   // Digest of the token that was given (Join, Turn) or used (Buy)
	Until time.Time `json:"until,omitzero"`    // of the token that was given
	Epoch int64     `json:"epoch,omitempty"`   // of the token that was given, by EpochOf; 0 if it is not known

	Receipt string    `json:"receipt,omitempty"` // whole: of the reservation that was granted or asked about
	Granted time.Time `json:"granted,omitzero"`  // the receipt's own time, by the server
	Key     string    `json:"key,omitempty"`     // the Idempotency-Key
	Body    string    `json:"body,omitempty"`    // Digest of the answer's body
	Payment string    `json:"payment,omitempty"` // the payment's ID
	Trick   Trick     `json:"trick,omitempty"`   // what was wrong with the call, on purpose
	Skew    int64     `json:"skew_ms,omitempty"` // how far the buyer's clock was ahead of the true one
	Workers int       `json:"workers,omitempty"` // of a Board: the order writers it shows
	Issued  int64     `json:"issued,omitempty"`  // this line stands for so many calls that were answered the same; 1 if 0
}

// An Action is what a buyer called.
type Action string

const (
	Join   Action = "join"   // asked for a ticket
	Turn   Action = "turn"   // asked where it stands
	Buy    Action = "buy"    // reserved with a token
	Look   Action = "look"   // asked for a receipt
	Cancel Action = "cancel" // cancelled an order
	Pay    Action = "pay"    // paid: the provider's call
	See    Action = "see"    // asked for a view, a list or the time
	Board  Action = "board"  // a merchant's look at the live board
	Leave  Action = "leave"  // gave up the ticket, and asks no more: no call, only a note
)

// A Trick is what a call did wrong on purpose. Every one must be refused, but a replay, which
// may get what the first call got.
type Trick string

const (
	Honest   Trick = ""
	Forged   Trick = "forged"   // a token, ticket, receipt or session that nobody signed
	Stolen   Trick = "stolen"   // one of another user
	Replayed Trick = "replayed" // a token that has been used
	Early    Trick = "early"    // before the start
	Late     Trick = "late"     // a token after its time, or a call after the end
)

// maxLine is the length of the longest line that is read.
const maxLine = 16 << 10

// Digest shortens what is only compared: a token or a body.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// A Log writes Observations, one JSON object a line. It is safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	w   *bufio.Writer
	err error
}

// NewLog returns a Log that writes to w, through a buffer: see Flush.
func NewLog(w io.Writer) *Log { return &Log{w: bufio.NewWriterSize(w, 256<<10)} }

// Note writes observations. An error is kept for Flush.
func (l *Log) Note(os ...Observation) {
	var lines []byte
	var failed error
	for i := range os {
		b, err := json.Marshal(&os[i])
		if err == nil && len(b) >= maxLine {
			err = fmt.Errorf("auditor: an observation of %d bytes, expected less than %d", len(b), maxLine)
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
		l.err = fmt.Errorf("auditor: write observations: %w", err)
	}
}

// Flush writes what is buffered, and returns the first error since the Log began.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.w.Flush(); err != nil && l.err == nil {
		l.err = fmt.Errorf("auditor: write observations: %w", err)
	}
	return l.err
}

// Read reads a log of observations, in its order. A last line without an end is one that was
// cut off when its writer died: it is left out. Anything else that is no Observation is an
// error that names the line.
func Read(r io.Reader) ([]Observation, error) {
	in := bufio.NewReaderSize(r, maxLine)
	var all []Observation
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return all, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("auditor: observations, line %d: longer than %d bytes", n, maxLine)
		case err != nil:
			return nil, fmt.Errorf("auditor: read observations: %w", err)
		}
		o, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("auditor: observations, line %d: %w", n, err)
		}
		all = append(all, o)
	}
}

func parse(line []byte) (Observation, error) {
	var o Observation
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, err
	}
	if _, err := d.Token(); err != io.EOF {
		return o, errors.New("more than one object")
	}
	switch o.Action {
	case Join, Turn, Buy, Look, Cancel, Pay, See, Board, Leave:
	default:
		return o, fmt.Errorf("action %q, expected join, turn, buy, look, cancel, pay, see, board or leave", o.Action)
	}
	switch o.Trick {
	case Honest, Forged, Stolen, Replayed, Early, Late:
	default:
		return o, fmt.Errorf("trick %q, expected forged, stolen, replayed, early or late", o.Trick)
	}
	switch {
	case o.Sent.IsZero() || o.At.Before(o.Sent):
		return o, fmt.Errorf("sent %s, at %s: expected a time, and the answer after the call", o.Sent, o.At)
	case o.Status != 0 && (o.Status < 100 || o.Status > 599):
		return o, fmt.Errorf("status %d, expected 0 or 100 to 599", o.Status)
	case o.Issued < 0 || o.Ahead < 0 || o.Poll < 0 || o.Workers < 0 || o.Epoch < 0:
		return o, errors.New("a negative number where there can be none")
	}
	return o, nil
}
