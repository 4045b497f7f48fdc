package accesslog

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
)

// members are the names in JSON lines, of Caddy, Traefik, Envoy, nginx and others. A name
// with a dot is in an object.
var members = map[string]field{
	"time": start, "timestamp": start, "@timestamp": start, "at": start, "start_time": startEnvoy, "StartUTC": start,
	"ts": finish, "msec": finish, "time_iso8601": finish, "time_local": finish,
	"client_ip": client, "client": client, "remote_addr": client, "remote_ip": client, "ip": client, "clientip": client,
	"request.client_ip": client, "request.remote_ip": client, "request.remote_addr": client,
	"ClientHost": forwarded, "x_forwarded_for": forwarded, "downstream_remote_address": client,
	"method": method, "request_method": method, "request.method": method, "RequestMethod": method,
	"host": host, "authority": host, "http_host": host, "request.host": host, "RequestHost": host,
	"path": path, "uri": path, "url": path, "request_uri": path, "request.uri": path, "RequestPath": path,
	"request": request,
	"status":  status, "response_code": status, "DownstreamStatus": status,
	"duration": seconds, "request_time": seconds, "duration_ms": millis, "Duration": nanos,
	"user_agent": agent, "http_user_agent": agent, "request_User-Agent": agent,
	"key": key, "cost": cost, "headers": headers, "request.headers": headers,
	"retry_after": retry, "downstream_Retry-After": retry, "resp_headers.Retry-After": retry,
	"sample_rate": sampled, "sampling_rate": sampled, "samplerate": sampled, "SampleInterval": sampled, "every": sampled, "suppressed": suppressed,
	"policy": policy, "outcome": outcome, "logger": logger,
}

// jsonLine reads a line with a JSON object.
func jsonLine(p *parser, line []byte, e *Entry) bool {
	if len(line) == 0 || line[0] != '{' || !gjson.ValidBytes(line) {
		return false
	}
	ok := true
	var name [64]byte
	var walk func(prefix []byte, o gjson.Result) // one level of objects
	walk = func(prefix []byte, o gjson.Result) {
		o.ForEach(func(k, v gjson.Result) bool {
			full := append(append(name[:0], prefix...), k.Str...)
			f, known := members[string(full)]
			switch {
			case v.Type == gjson.JSON && f == headers && known:
				ok = p.set(e, headers, []byte(v.Raw))
			case v.IsObject() && len(prefix) == 0 && len(k.Str) < 20:
				walk(append([]byte(k.Str), '.'), v)
			case f == retry && v.IsArray():
				ok = p.set(e, retry, text(v.Get("0")))
			case !known || v.Type == gjson.Null || v.Type == gjson.JSON:
				// Shadow mode decides at an instant of its own, after the line that counts.
				e.server = e.server || k.Str == "shadow" && v.Bool()
			case f == logger:
				e.server = e.server || !bytes.HasPrefix([]byte(v.Str), []byte("http.log.access"))
			case f == client && e.Client.IsValid() && k.Str == "remote_ip": // Caddy: of the proxy
			default:
				ok = p.set(e, f, text(v))
			}
			return ok
		})
	}
	walk(nil, gjson.ParseBytes(line))
	if e.Method == "" && e.Status == 0 && !e.Client.IsValid() {
		e.server = true // a message of the server, not a request
	}
	if e.Policy != "" && e.Outcome != "" {
		p.policyKey(e)
		if e.Outcome == "denied" {
			e.Status = 429
		}
	}
	return ok
}

// policyKey replaces the key of a decision, such as api|11:203.0.113.7, by its value: the
// client if it is an address, or else the header or cookie. A key that is a hash has none.
func (p *parser) policyKey(e *Entry) {
	_, value, _ := strings.Cut(e.Key, "|")
	_, value, _ = strings.Cut(value, ":")
	value, _, _ = strings.Cut(value, "|")
	e.Key = value
	address, _, _ := strings.Cut(value, "/")
	if p.address(e, []byte(address)); e.Client.IsValid() {
		e.Key = ""
	}
}

// text returns the bytes of a scalar.
func text(v gjson.Result) []byte {
	if v.Type == gjson.String {
		return []byte(v.Str)
	}
	return []byte(v.Raw)
}
