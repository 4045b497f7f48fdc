package orchestrion

import (
	"errors"
	"fmt"
	"go/token"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
)

const known = "name, key, limit, interval, algorithm, wait, message or fallback"

// read puts the fields of a directive into p. What key and fallback say is in the woven
// code; that they are names is checked here.
func read(p *guard.Resource, fields []string) error {
	values := map[string]string{}
	for _, f := range fields {
		name, value, err := field(f)
		if err != nil {
			return err
		}
		if _, twice := values[name]; twice {
			return fmt.Errorf("%s is said twice: want it once", name)
		}
		values[name] = value
	}
	// In a fixed order, so that of several mistakes the same one is told.
	for _, c := range []struct {
		name  string
		check func(p *guard.Resource, value string) error
	}{{"name", readName}, {"key", readKey}, {"wait", readWait}, {"message", readMessage}, {"fallback", readFallback}} {
		if v, ok := values[c.name]; ok {
			if err := c.check(p, v); err != nil {
				return fmt.Errorf("%s %q: %w", c.name, v, err)
			}
		}
	}
	return readLimits(p, values)
}

// field divides a field of either form. Orchestrion has taken the quotes from the value
// of limit:"10/s burst 20", and left those of limit="10/s burst 20".
func field(f string) (name, value string, err error) {
	i := strings.IndexAny(f, "=:")
	if i <= 0 {
		return "", "", fmt.Errorf("%q: want a field such as limit=10", f)
	}
	name, value = f[:i], f[i+1:]
	switch name {
	case "name", "key", "limit", "interval", "algorithm", "wait", "message", "fallback":
	case "cost", "degrade", "onerror":
		return "", "", fmt.Errorf("%s cannot be woven by orchestrion: want weir go or weir generate", name)
	default:
		return "", "", fmt.Errorf("unknown field %q: want %s", name, known)
	}
	if f[i] == '=' && strings.Contains(value, `"`) {
		if name == "key" || name == "fallback" {
			return "", "", fmt.Errorf("%s: want it without quotes and spaces", name)
		}
		if value[0] != '"' {
			return "", "", fmt.Errorf(`%s: want quotes around the whole value, as in %s="10/s burst 20"`, name, name)
		}
		if value, err = strconv.Unquote(value); err != nil {
			return "", "", fmt.Errorf("%s: want a value in double quotes", name)
		}
	}
	if value == "" {
		return "", "", fmt.Errorf("%s: want a value after the %c", name, f[i])
	}
	return name, value, nil
}

func readName(p *guard.Resource, v string) error {
	p.Name = v // the registry knows what a name is
	return nil
}

func readMessage(p *guard.Resource, v string) error {
	p.Message = v
	return nil
}

func readKey(_ *guard.Resource, v string) error {
	for part := range strings.SplitSeq(v, ",") {
		if !isPath(strings.TrimSpace(part)) {
			return errors.New("want parameters such as userID, or fields of them such as req.UserID")
		}
	}
	return nil
}

func readFallback(_ *guard.Resource, v string) error {
	if !isPath(strings.TrimSuffix(v, "()")) {
		return errors.New("want a function such as browse, or browse() if it takes no parameters, or s.browse for a method of the receiver s")
	}
	return nil
}

func isPath(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !token.IsIdentifier(part) {
			return false
		}
	}
	return true
}

func readWait(p *guard.Resource, v string) (err error) {
	if p.Wait, err = time.ParseDuration(v); err != nil || p.Wait <= 0 || p.Wait > time.Minute {
		return errors.New("want a duration such as 300ms, at most 1m")
	}
	return nil
}

// readLimits reads limit, interval and algorithm.
func readLimits(p *guard.Resource, values map[string]string) error {
	limit, isSet := values["limit"]
	count, err := strconv.ParseInt(limit, 10, 64)
	if !isSet || err == nil {
		return readCount(p, values, count)
	}
	for _, name := range []string{"interval", "algorithm"} {
		if v, ok := values[name]; ok {
			return fmt.Errorf("%s %q: want it with a limit that is a number; limit=%q says all itself", name, v, limit)
		}
	}
	for text := range strings.SplitSeq(limit, ",") {
		l, err := weir.ParseLimit(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf(`limit %q: want a number, or limits such as "10/s burst 20": %s`, limit, reason(err))
		}
		p.Limits = append(p.Limits, l)
	}
	return nil
}

// readCount reads a count in an interval. What is absent is that of guard.DefaultLimit.
func readCount(p *guard.Resource, values map[string]string, count int64) error {
	usual := guard.DefaultLimit().Config()
	c := weir.LimitConfig{Algorithm: usual.Algorithm, Count: usual.Count, Period: usual.Period}
	if _, ok := values["limit"]; ok {
		c.Count = count
	}
	if v, ok := values["algorithm"]; ok {
		if c.Algorithm = weir.Algorithm(v); v == "gcra" {
			c.Algorithm = weir.TokenBucket
		}
	}
	if v, ok := values["interval"]; ok {
		var err error
		if c.Period, err = seconds(v); err != nil || c.Period <= 0 {
			return fmt.Errorf("interval %q: want seconds such as 10, or a duration such as 1m30s", v)
		}
	}
	l, err := weir.NewLimit(c)
	if err != nil {
		return fmt.Errorf("limit: %s", reason(err))
	}
	p.Limits = []weir.Limit{l}
	return nil
}

// seconds reads a whole number of seconds, or a duration.
func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.ParseDuration(text)
	}
	if n > math.MaxInt64/int64(time.Second) || n < 0 {
		return 0, errors.New("out of range")
	}
	return time.Duration(n) * time.Second, nil
}

// reason is an error about a limit without what the error around it says already.
func reason(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, weir.ErrInvalid.Error()+": "); ok {
		return after
	}
	return strings.TrimPrefix(text, "weir: ")
}
