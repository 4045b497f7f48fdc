package published

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/redisstore"
)

const (
	key = "weir:1:policies"

	// Keep is the number of versions that are kept.
	Keep = 20

	// MaxSize is the maximum size of a text, in bytes.
	MaxSize = 4 << 20

	maxNote = 1024
)

// A Version is one published policy file.
type Version struct {
	Number int64     `json:"version"`
	At     time.Time `json:"at"`             // by the clock of the publisher
	By     string    `json:"by,omitempty"`   // the publisher, as stated
	Note   string    `json:"note,omitempty"` // the reason, as stated
	Text   string    `json:"text,omitempty"` // the policy file

	// EdgeOnly and EdgeLocal are the options of the plan for nginx, as stated.
	EdgeOnly  []string `json:"edge_only,omitempty"`
	EdgeLocal string   `json:"edge_local,omitempty"`
}

// A Draft is a version to publish.
type Draft struct {
	Text string
	By   string
	Note string

	// After is the version that must be current; any if nil. It is 0 before the first
	// version.
	After *int64

	// Edge is the plan for nginx, a JSON object that is not empty and has no version; or
	// an object with "error" that says why there is no plan. "" publishes nothing for
	// nginx. EdgeOnly and EdgeLocal are the options of the plan, for the next publisher.
	Edge      string
	EdgeOnly  []string
	EdgeLocal string
}

// ErrNone reports that no version, or not the requested one, is published.
var ErrNone = errors.New("published: version not found")

// A Conflict reports that a Draft's After is not the current version.
type Conflict struct{ Current int64 }

// Error implements error.
func (c *Conflict) Error() string {
	return fmt.Sprintf("published: conflict: the current version is %d", c.Current)
}

// publish adds a version and makes it the current one, atomically.
//
//	KEYS[1] the hash
//	ARGV[1] the version in JSON without its number
//	ARGV[2] the number of versions to keep
//	ARGV[3] the version that must be current, or ""
//	ARGV[4] the ID
//	ARGV[5] the Edge, in which the number is inserted first
//
// It returns the new number, or minus the current number minus one, if ARGV[3] is
// another.
const publish = `
local current = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
if ARGV[3] ~= '' and tonumber(ARGV[3]) ~= current then
  return -current - 1
end
local number = current + 1
local text = string.format('%.0f', number)
redis.call('HSET', KEYS[1], 'v:' .. text, ARGV[1], 'version', text, 'id', ARGV[4])
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[1], 'edge', '{"version":' .. text .. ',' .. string.sub(ARGV[5], 2))
else
  redis.call('HDEL', KEYS[1], 'edge')
end
redis.call('HDEL', KEYS[1], 'v:' .. string.format('%.0f', number - tonumber(ARGV[2])))
return number
`

// Publish makes d the current version and returns it. The error is a *Conflict if d.After
// is not the current version. The text is not validated.
func Publish(ctx context.Context, conn redisstore.Conn, d Draft) (Version, error) {
	v := Version{At: time.Now().UTC().Truncate(time.Second), By: d.By, Note: d.Note, Text: d.Text, EdgeOnly: d.EdgeOnly, EdgeLocal: d.EdgeLocal}
	switch {
	case d.Text == "" || len(d.Text) > MaxSize:
		return v, fmt.Errorf("published: text: %w: want 1 to %d bytes, got %d", weir.ErrInvalid, MaxSize, len(d.Text))
	case len(d.Note) > maxNote || len(d.By) > maxNote:
		return v, fmt.Errorf("published: note: %w: want at most %d bytes, got %d", weir.ErrInvalid, maxNote, max(len(d.Note), len(d.By)))
	case d.Edge != "" && (len(d.Edge) > MaxSize+1024 || !strings.HasPrefix(d.Edge, `{"`) || !json.Valid([]byte(d.Edge))):
		return v, fmt.Errorf("published: edge: %w: want a JSON object that is not empty, of at most %d bytes, got %d", weir.ErrInvalid, MaxSize+1024, len(d.Edge))
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	after := ""
	if d.After != nil {
		after = strconv.FormatInt(*d.After, 10)
	}
	items, err := revision.Do(ctx, conn, redisstore.Command{
		Head: []string{"EVAL", publish, "1"}, Keys: []string{key}, Args: []string{string(doc), strconv.Itoa(Keep), after, rand.Text(), d.Edge},
	})
	if err != nil {
		return v, fmt.Errorf("published: %w", err)
	}
	v.Number, err = strconv.ParseInt(strings.Join(items, " "), 10, 64)
	switch {
	case err != nil:
		return v, fmt.Errorf("published: unexpected reply %.40q", items)
	case v.Number < 0:
		return v, &Conflict{-v.Number - 1}
	}
	return v, nil
}

// Current returns the number of the current version, or 0 if there is none.
func Current(ctx context.Context, conn redisstore.Conn) (int64, error) {
	p, err := revision.At(ctx, conn, key)
	if err != nil {
		return 0, fmt.Errorf("published: %w", err)
	}
	return p.Number, nil
}

// Get returns the version with the given number, or ErrNone.
func Get(ctx context.Context, conn redisstore.Conn, number int64) (Version, error) {
	v, err := load(ctx, conn, number)
	if err != nil && err != ErrNone {
		err = fmt.Errorf("published: %w", err)
	}
	return v, err
}

// load is Get with errors that do not name the package.
func load(ctx context.Context, conn redisstore.Conn, number int64) (v Version, err error) {
	reply, err := revision.Get(ctx, conn, key, "v:"+strconv.FormatInt(number, 10))
	switch {
	case err != nil:
		return v, err
	case reply == "":
		return v, ErrNone
	}
	if err := json.Unmarshal([]byte(reply), &v); err != nil || v.Text == "" {
		return Version{}, fmt.Errorf("field v:%d of %s: want a version in JSON, got %.40q", number, key, reply)
	}
	v.Number = number
	return v, nil
}

// Newest returns the last version that accept does not refuse. A process that cannot use the
// current version thus starts with the one that it would have kept without the restart. If
// accept refuses all, the error is that about the oldest. Without a version it is ErrNone.
func Newest(ctx context.Context, conn redisstore.Conn, accept func(Version) error) (Version, error) {
	n, err := Current(ctx, conn)
	if err != nil {
		return Version{}, err
	}
	err = ErrNone
	for ; n > 0; n-- {
		v, e := Get(ctx, conn, n)
		switch {
		case errors.Is(e, ErrNone):
			return Version{}, err
		case e != nil:
			return Version{}, e
		}
		if err = accept(v); err == nil {
			return v, nil
		}
	}
	return Version{}, err
}

// List returns the versions that are kept, the current one first.
func List(ctx context.Context, conn redisstore.Conn) ([]Version, error) {
	n, err := Current(ctx, conn)
	var vs []Version
	for ; err == nil && n > 0 && len(vs) < Keep; n-- {
		v, e := Get(ctx, conn, n)
		switch {
		case errors.Is(e, ErrNone):
			return vs, nil
		case e != nil:
			return vs, e
		}
		vs = append(vs, v)
	}
	return vs, err
}
