package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// Limits on sessions.
const (
	maxIdle     = time.Hour // without a request
	maxAge      = 12 * time.Hour
	maxSessions = 16 // per token; a further sign-in ends the least recently used one
)

// A session replaces the token of a user in a browser.
type session struct {
	user    *user
	expires time.Time
	ended   context.Context // ends with the session
	end     context.CancelFunc

	used     time.Time // end of the last request
	requests int       // in progress
}

// valid reports whether s is usable at now.
func (s *session) valid(now time.Time) bool {
	idle := s.requests == 0 && now.Sub(s.used) >= maxIdle
	return s.ended.Err() == nil && now.Before(s.expires) && !idle
}

// sessions holds the sessions of a process by the hash of their ID.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

// start starts a session and returns its ID.
func (t *sessions) start(u *user) string {
	now, id := time.Now(), rand.Text()
	s := &session{user: u, expires: now.Add(maxAge), used: now}
	s.ended, s.end = context.WithCancel(u.removed)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[[sha256.Size]byte]*session{}
	}
	var oldest [sha256.Size]byte
	same := 0
	for key, o := range t.all {
		switch {
		case !o.valid(now):
			t.remove(key)
		case o.user == u:
			if same++; same == 1 || o.used.Before(t.all[oldest].used) {
				oldest = key
			}
		}
	}
	if same >= maxSessions {
		t.remove(oldest)
	}
	t.all[sha256.Sum256([]byte(id))] = s
	return id
}

// remove ends a session. It requires mu.
func (t *sessions) remove(key [sha256.Size]byte) {
	if s := t.all[key]; s != nil {
		s.end()
		delete(t.all, key)
	}
}

// stop ends the session with the given ID and returns its user, or nil if it had ended.
func (t *sessions) stop(id string) (u *user) {
	key := sha256.Sum256([]byte(id))
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.all[key]; s != nil && s.valid(time.Now()) {
		u = s.user
	}
	t.remove(key)
	return u
}

// begin returns the session with the given ID for one request, or nil. The caller calls
// finish after the request: a session with a request in progress, such as a stream of
// events, is not idle.
func (t *sessions) begin(id string) *session {
	key, now := sha256.Sum256([]byte(id)), time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.all[key]
	switch {
	case s == nil:
		return nil
	case !s.valid(now):
		t.remove(key)
		return nil
	}
	s.requests++
	return s
}

func (t *sessions) finish(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.requests--
	s.used = time.Now()
}
