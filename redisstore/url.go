package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
)

// A Topology is the kind of a Redis deployment.
type Topology string

// The topologies.
const (
	Standalone Topology = "standalone"
	Sentinel   Topology = "sentinel" // Hosts are the sentinels
	Cluster    Topology = "cluster"  // Hosts are some of its nodes
)

// An Address has the parameters with which a client connects to Redis.
type Address struct {
	Topology Topology
	Hosts    []string // host:port, at least one; exactly one if Standalone

	Username, Password string // an empty Username is the default user
	DB                 int    // the database; 0 on a cluster

	// Primary, SentinelUsername and SentinelPassword are set for Sentinel: the name of the
	// primary and the credentials of the sentinels.
	Primary                            string
	SentinelUsername, SentinelPassword string

	TLS *tls.Config // nil: plain TCP
}

// ParseURL parses the address of a Redis:
//
//	redis://[[user]:password@]host[:port][/db]
//	redis+sentinel://[[user]:password@]host[:port],…/primary[/db]
//	redis+cluster://[[user]:password@]host[:port],…
//
// With rediss in place of redis, connections use TLS. Its parameters: ca, cert and key are
// PEM files; server_name is the name in the certificate, by default the host;
// skip_verify=true trusts any certificate. The parameters sentinel_user and
// sentinel_password are the credentials of the sentinels. User and password are
// percent-encoded. Instead of a password, password_file and sentinel_password_file name a
// file with the password, whose line end is ignored. An error wraps weir.ErrInvalid and
// never contains a password.
func ParseURL(text string) (Address, error) {
	a, err := parseURL(text)
	if err != nil {
		return Address{}, fmt.Errorf("redisstore: url: %w: %w", weir.ErrInvalid, err)
	}
	return a, nil
}

func parseURL(text string) (a Address, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return a, fmt.Errorf("want one that begins with redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	port := "6379"
	switch {
	case base != "redis" && base != "rediss":
		return a, fmt.Errorf("scheme %.20q: want redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster", scheme)
	case scheme == base:
		a.Topology = Standalone
	case kind == "sentinel":
		a.Topology, port = Sentinel, "26379"
	case kind == "cluster":
		a.Topology = Cluster
	default:
		return a, fmt.Errorf("scheme %.20q: want +sentinel or +cluster behind %s, or nothing", scheme, base)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if a.Username, a.Password, err = credentials(authority[:at]); err != nil {
			return a, err
		}
		authority = authority[at+1:]
	}
	if a.Hosts, err = hosts(authority, port); err != nil {
		return a, err
	}
	if a.Topology == Standalone && len(a.Hosts) > 1 {
		return a, fmt.Errorf("%d hosts: want one, or redis+sentinel or redis+cluster", len(a.Hosts))
	}
	if err := a.path(path); err != nil {
		return a, err
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return a, fmt.Errorf("parameters: want name=value&…, percent-encoded")
	}
	return a, a.params(params, base == "rediss")
}

func credentials(info string) (user, password string, err error) {
	user, password, _ = strings.Cut(info, ":")
	if user, err = url.PathUnescape(user); err == nil {
		password, err = url.PathUnescape(password)
	}
	if err != nil {
		return "", "", fmt.Errorf("user and password: want them percent-encoded")
	}
	return user, password, nil
}

func hosts(list, defaultPort string) (all []string, err error) {
	for _, h := range strings.Split(list, ",") {
		host, port, err := net.SplitHostPort(h)
		if err != nil { // no port, then
			host, port = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]"), defaultPort
		}
		n, err := strconv.Atoi(port)
		switch {
		case host == "" || strings.ContainsAny(host, "[]@/ "):
			return nil, fmt.Errorf("host %.60q: want host or host:port", h)
		case err != nil || n < 1 || n > 65535:
			return nil, fmt.Errorf("port %.20q: want 1 to 65535", port)
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	return all, nil
}

// path reads what stands behind the hosts: the name of a primary, a database.
func (a *Address) path(path string) (err error) {
	if a.Topology == Sentinel {
		a.Primary, path, _ = strings.Cut(path, "/")
		if a.Primary, err = url.PathUnescape(a.Primary); err != nil || a.Primary == "" {
			return fmt.Errorf("path: want the name of the primary, as in redis+sentinel://host:26379/mymaster")
		}
	}
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	switch {
	case err != nil || n < 0:
		return fmt.Errorf("database %.20q: want a number from 0", path)
	case n > 0 && a.Topology == Cluster:
		return fmt.Errorf("database %d: a cluster has only database 0", n)
	}
	a.DB = n
	return nil
}

func (a *Address) params(params url.Values, secure bool) error {
	if secure {
		a.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	var cert, key string
	for name, values := range params {
		v := values[len(values)-1]
		switch name {
		case "password_file":
			if err := readPassword(name, v, &a.Password); err != nil {
				return err
			}
			continue
		case "sentinel_user", "sentinel_password", "sentinel_password_file":
			if a.Topology != Sentinel {
				return fmt.Errorf("parameter %s: only redis+sentinel takes it", name)
			}
			switch name {
			case "sentinel_user":
				a.SentinelUsername = v
			case "sentinel_password":
				if params.Has("sentinel_password_file") {
					return fmt.Errorf("parameters sentinel_password and sentinel_password_file: want one of them")
				}
				a.SentinelPassword = v
			default:
				if err := readPassword(name, v, &a.SentinelPassword); err != nil {
					return err
				}
			}
			continue
		case "ca", "cert", "key", "server_name", "skip_verify":
		default:
			return fmt.Errorf("parameter %.40q: want password_file, ca, cert, key, server_name, skip_verify, sentinel_user, sentinel_password or sentinel_password_file", name)
		}
		if a.TLS == nil {
			return fmt.Errorf("parameter %s: only TLS takes it: want rediss in place of redis", name)
		}
		switch name {
		case "server_name":
			a.TLS.ServerName = v
		case "cert":
			cert = v
		case "key":
			key = v
		case "ca":
			pem, err := os.ReadFile(v)
			if err != nil {
				return fmt.Errorf("parameter ca: %w", err)
			}
			if a.TLS.RootCAs = x509.NewCertPool(); !a.TLS.RootCAs.AppendCertsFromPEM(pem) {
				return fmt.Errorf("parameter ca: no certificate in PEM in %s", v)
			}
		case "skip_verify":
			skip, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("parameter skip_verify: want true or false, got %.20q", v)
			}
			a.TLS.InsecureSkipVerify = skip
		}
	}
	if (cert == "") != (key == "") {
		return fmt.Errorf("parameters cert and key: want both or none")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("parameters cert and key: %w", err)
		}
		a.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// readPassword reads the file of a parameter. A password in the URL beside it is an error.
func readPassword(parameter, name string, password *string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", parameter, err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case parameter == "password_file" && *password != "":
		return fmt.Errorf("parameter password_file: want no other password in the URL")
	case text == "" || len(text) > 4096 || strings.ContainsAny(text, "\r\n"):
		return fmt.Errorf("parameter %s: %s: want a file with one line, the password", parameter, name)
	}
	*password = text
	return nil
}
