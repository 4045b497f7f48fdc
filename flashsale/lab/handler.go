package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// longest is how long a run over HTTP may take.
const longest = 30 * time.Second

// maxBody is the longest body that is read.
const maxBody = 16 << 10

// Handler answers POST with one run, over redis or, if it is nil, over a store in this
// process. It makes one run at a time, and refuses others meanwhile.
func Handler(redis rueidis.Client) http.Handler {
	free := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, http.StatusMethodNotAllowed, "invalid", "method "+r.Method+", expected POST")
			return
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "invalid", "the content type is not application/json")
			return
		}
		c, err := read(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = c.check()
		}
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			refuse(w, http.StatusRequestEntityTooLarge, "invalid", fmt.Sprintf("body above %d bytes", large.Limit))
			return
		} else if err != nil {
			refuse(w, http.StatusBadRequest, "invalid", err.Error())
			return
		}
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		default:
			w.Header().Set("Retry-After", "2")
			refuse(w, http.StatusTooManyRequests, "overloaded", "another run goes on: one at a time")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		c.Redis = redis
		result, err := Run(ctx, c)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, "unavailable", err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		json.NewEncoder(w).Encode(answer{
			Design: result.Design, Buyers: result.Buyers, Stock: result.Stock,
			Sold: result.Sold, Oversold: result.Oversold, Undersold: result.Undersold,
			Took: result.Took.Milliseconds(), PerSecond: result.PerSecond,
		})
	})
}

type question struct {
	Design Design `json:"design"`
	Buyers int    `json:"buyers"`
	Stock  int    `json:"stock"`
	Pause  int64  `json:"pause_ms"`
}

type answer struct {
	Design    Design  `json:"design"`
	Buyers    int     `json:"buyers"`
	Stock     int     `json:"stock"`
	Sold      int     `json:"sold"`
	Oversold  int     `json:"oversold"`
	Undersold int     `json:"undersold"`
	Took      int64   `json:"took_ms"`
	PerSecond float64 `json:"per_second"`
}

// read reads a question. Its errors say what to write instead.
func read(body io.Reader) (Config, error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	var q question
	if err := d.Decode(&q); err != nil {
		return Config{}, fmt.Errorf("lab: body: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Config{}, errors.New("lab: body: more than one JSON value")
	}
	if q.Pause < 0 || q.Pause > MaxPause.Milliseconds() { // before it is multiplied
		return Config{}, fmt.Errorf("%w: pause_ms %d, expected 0 to %d", ErrInvalid, q.Pause, MaxPause.Milliseconds())
	}
	return Config{
		Design: q.Design, Buyers: q.Buyers, Stock: q.Stock,
		Pause: time.Duration(q.Pause) * time.Millisecond,
	}, nil
}

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason string `json:"reason"`
	Retry  int64  `json:"retry_after_ms,omitempty"`
}

func refuse(w http.ResponseWriter, status int, reason, detail string) {
	p := problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Reason: reason}
	if s, err := strconv.ParseInt(w.Header().Get("Retry-After"), 10, 64); err == nil {
		p.Retry = s * 1000
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(p)
}
