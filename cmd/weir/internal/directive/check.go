package directive

import (
	"errors"
	"fmt"
	"go/token"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

// maxWait is the longest wait that a guard has.
const maxWait = time.Minute

func faulty(v Value, name, format string, args ...any) error {
	return &Error{v.At, fmt.Sprintf("%s %q: %s", name, v.Text, fmt.Sprintf(format, args...))}
}

// check reads everything that needs no types.
func (d *Directive) check() (err error) {
	if d.Name.Set && !isName(d.Name.Text) {
		return faulty(d.Name, "name", "want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first")
	}
	if d.Name.Text == "system" {
		return faulty(d.Name, "name", "want another name: this one is reserved for the rule of the whole program")
	}
	if d.Limits, err = d.limits(); err != nil {
		return err
	}
	if d.Keys, err = list(d.Key, "key", isKey, "a parameter such as userID, or a field of one such as req.UserID, or instance()"+orName(d.Key.Text)); err != nil {
		return err
	}
	if d.Cost.Set && !token.IsIdentifier(d.Cost.Text) {
		if n, err := strconv.ParseInt(d.Cost.Text, 10, 64); err != nil || n < 1 {
			return faulty(d.Cost, "cost", "want a whole number from 1 on, or a parameter")
		}
	}
	if d.Wait.Set {
		if d.MaxWait, err = time.ParseDuration(d.Wait.Text); err != nil || d.MaxWait <= 0 || d.MaxWait > maxWait {
			return faulty(d.Wait, "wait", "want a duration such as 300ms, at most 1m")
		}
	}
	if d.Fallback.Set && d.Degrade.Set {
		return faulty(d.Degrade, "degrade", "want fallback or degrade, not both")
	}
	for _, f := range []struct {
		name string
		v    Value
	}{{"fallback", d.Fallback}, {"degrade", d.Degrade}} {
		if f.v.Set && !token.IsIdentifier(f.v.Text) {
			return faulty(f.v, f.name, "want the name of a function, a method, a variable or a constant of this package")
		}
	}
	switch {
	case d.Errors.Set && d.Errors.Text != "all" && d.Errors.Text != "store":
		return faulty(d.Errors, "errors", "want all, for errors that the function returns too, or store, the default")
	case d.Errors.Set && !d.OnError.Set:
		return faulty(d.Errors, "errors", "want it with onerror, which handles these errors")
	}
	d.Links, err = list(d.OnError, "onerror", token.IsIdentifier, "names of functions, separated by commas")
	return err
}

func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Instance is the part of a key for the process.
const Instance = "instance()"

func isKey(s string) bool { return s == Instance || isPath(s) }

func isPath(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !token.IsIdentifier(part) {
			return false
		}
	}
	return true
}

// list splits a value at its commas.
func list(v Value, name string, ok func(string) bool, want string) (parts []Value, err error) {
	at := v.At
	for text := range strings.SplitSeq(v.Text, ",") {
		if !v.Set {
			break
		}
		p := Value{strings.TrimSpace(text), at + len(text) - len(strings.TrimLeft(text, " ")), true}
		if !ok(p.Text) {
			return nil, faulty(p, name, "want %s", want)
		}
		parts = append(parts, p)
		at += len(text) + 1
	}
	return parts, nil
}

// limits returns the limits of limit, period and algorithm; nil if all are absent.
func (d *Directive) limits() ([]weir.Limit, error) {
	if count, err := strconv.ParseInt(d.Limit.Text, 10, 64); err == nil || !d.Limit.Set {
		return d.counted(count)
	}
	for _, f := range []struct {
		name string
		v    Value
	}{{"period", d.Period}, {"algorithm", d.Algorithm}} {
		if f.v.Set {
			return nil, faulty(f.v, f.name, "want it only with a limit that is a number; limit=%q is a whole limit", d.Limit.Text)
		}
	}
	var limits []weir.Limit
	at := d.Limit.At
	for text := range strings.SplitSeq(d.Limit.Text, ",") {
		v := Value{strings.TrimSpace(text), at + len(text) - len(strings.TrimLeft(text, " ")), true}
		l, err := weir.ParseLimit(v.Text)
		if err != nil {
			return nil, faulty(v, "limit", `want a number, or limits such as "10/s burst 20": %s`, reason(err))
		}
		for _, other := range limits {
			if other.Equal(l) {
				return nil, faulty(v, "limit", "is given twice: want it once")
			}
		}
		limits = append(limits, l)
		at += len(text) + 1
	}
	return limits, nil
}

// byDefault returns the limit of a directive without one.
func byDefault() weir.Limit { return weir.MustLimit("100/60s fixed_window") }

// counted returns the limit of a count and a period.
func (d *Directive) counted(count int64) ([]weir.Limit, error) {
	if !d.Limit.Set && !d.Period.Set && !d.Algorithm.Set {
		return nil, nil
	}
	usual := byDefault()
	algorithm, period := usual.Algorithm(), usual.Period()
	if !d.Limit.Set {
		count = usual.Count()
	}
	if d.Algorithm.Set {
		if algorithm = d.Algorithm.Text; config(algorithm, count, period) == nil {
			return nil, faulty(d.Algorithm, "algorithm", "want token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_log or concurrency")
		}
	}
	if d.Period.Set {
		var err error
		if period, err = seconds(d.Period.Text); err != nil || period <= 0 {
			return nil, faulty(d.Period, "period", "want seconds such as 10, or a duration such as 1m30s")
		}
	}
	l, err := weir.NewLimit(config(algorithm, count, period))
	if err != nil {
		v, name := d.Limit, "limit"
		if !v.Set {
			v, name = d.Period, "period"
		}
		return nil, faulty(v, name, "%s", reason(err))
	}
	return []weir.Limit{l}, nil
}

// config returns a limit of an algorithm without options; nil if there is none of this name.
func config(algorithm string, count int64, period time.Duration) weir.LimitConfig {
	switch algorithm {
	case "token_bucket", "gcra":
		return weir.TokenBucket{Count: count, Period: period}
	case "leaky_bucket":
		return weir.LeakyBucket{Count: count, Period: period}
	case "fixed_window":
		return weir.FixedWindow{Count: count, Period: period}
	case "sliding_window":
		return weir.SlidingWindow{Count: count, Period: period}
	case "sliding_log":
		return weir.SlidingLog{Count: count, Period: period}
	case "concurrency":
		return weir.Concurrency{Count: count, Lease: period}
	}
	return nil
}

// seconds reads an integer number of seconds, or a duration.
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

// reason returns the text of an error about a limit, without what the fault already
// says.
func reason(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, weir.ErrInvalid.Error()+": "); ok {
		return after
	}
	return strings.TrimPrefix(text, "weir: ")
}
