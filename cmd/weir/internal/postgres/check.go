package postgres

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
)

// oldest is the oldest version of PostgreSQL that works, as in server_version_num.
const oldest = 14_00_00

// state returns what Check checks. The last column has the privileges that are missing.
const state = `SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_user::text,
	pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
	current_setting('synchronous_commit') <> 'off' AND current_setting('fsync') = 'on',
	to_regproc('weir_decide') IS NOT NULL AND to_regproc('weir_swap_shares') IS NOT NULL,
	(SELECT coalesce(string_agg(p || ' ON ' || t, ', '), '') FROM (
		SELECT t, p FROM unnest(ARRAY['weir_states', 'weir_shares']) t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p
			WHERE NOT has_table_privilege(to_regclass(t)::oid, p)
		UNION ALL SELECT 'weir_seed', 'SELECT' WHERE NOT has_table_privilege(to_regclass('weir_seed')::oid, 'SELECT')
		UNION ALL SELECT t, 'USAGE' FROM unnest(ARRAY['weir_versions', 'weir_sweeps']) t
			WHERE NOT has_sequence_privilege(to_regclass(t)::oid, 'USAGE')
	) missing)`

// Grants returns the statements that give a user the privileges that the program needs.
func Grants(user string) string {
	name := pq.QuoteIdentifier(user)
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON weir_states, weir_shares TO " + name + "; GRANT SELECT ON weir_seed TO " + name +
		"; GRANT USAGE ON SEQUENCE weir_versions, weir_sweeps TO " + name
}

// Check returns why the server or its account cannot keep limits, as a setup.Error, or that the
// server does not reply within timeout. It writes nothing. Settings that work but weaken limits are
// warnings.
func Check(ctx context.Context, db *sql.DB, a Address, timeout time.Duration) (version string, warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var number int
	var user, missing string
	var replica, readOnly, durable, schema bool
	err = db.QueryRowContext(ctx, state).Scan(&version, &number, &user, &replica, &readOnly, &durable, &schema, &missing)
	switch {
	case err != nil:
		return "", nil, explain(err, a)
	case number < oldest:
		err = setup.New("the server is PostgreSQL "+version, "want 14 or later")
	case replica:
		err = setup.New("the server is a replica", "name the primary in the URL, or all servers as ?host=A,B&target_session_attrs=read-write")
	case readOnly:
		err = setup.New("transactions are read-only", "set default_transaction_read_only = off for the user "+user)
	case !schema:
		err = setup.New(fmt.Sprintf("the database %s has no schema of this version in the search path of the user %s", a.config.Database, user),
			"run weir migrate with the URL of a user who may create tables")
	case missing != "":
		err = setup.New(fmt.Sprintf("the user %s lacks %s", user, missing), "run "+Grants(user))
	}
	if err == nil && !durable {
		warnings = append(warnings, "synchronous_commit or fsync is off: after a crash of the server, the charges of the last moments are lost; set both to on for limits that have to survive it")
	}
	return version, warnings, err
}

// explain returns a setup.Error for err if there is one to return, and otherwise err, which then
// wraps weir.ErrUnavailable.
func explain(err error, a Address) error {
	var (
		e         *pq.Error
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	const tls = "the certificate of PostgreSQL is "
	switch {
	case errors.As(err, &e):
		return explainServer(e, a)
	case errors.Is(err, pq.ErrSSLNotSupported):
		return setup.New("the URL requires TLS, but PostgreSQL has none", "set ssl = on in postgresql.conf, or use ?sslmode=disable in the URL")
	case errors.As(err, &authority):
		return setup.New(tls+"signed by an unknown authority", "name the file of the authority: ?sslrootcert=FILE in the URL")
	case errors.As(err, &host):
		return setup.New(tls+"for another name: "+host.Error(), "name the host of the certificate in the URL")
	case errors.As(err, &invalid):
		return setup.New(tls+"not valid: "+invalid.Error(), "renew it")
	case strings.Contains(err.Error(), "unexpected response"):
		return setup.New("the server at this port is not PostgreSQL", "name the port of PostgreSQL in the URL")
	}
	return fmt.Errorf("%w: %w", weir.ErrUnavailable, err)
}

// explainServer explains an error that the server sent.
func explainServer(e *pq.Error, a Address) error {
	fix := ""
	switch e.Code {
	case "28P01":
		fix = "correct the user and the password in the URL, or its password_file"
	case "28000":
		fix = "create the user, or add a line for it to pg_hba.conf; with ?sslmode=require the connection has TLS"
	case "3D000":
		fix = "create the database, or name another one in the URL"
	case "42501":
		fix = "run GRANT CONNECT ON DATABASE " + pq.QuoteIdentifier(a.config.Database) + " TO " + pq.QuoteIdentifier(a.config.User) + "; GRANT USAGE ON the schema of its tables"
	case "22023", "42704":
		fix = "correct the parameters of the URL"
	default:
		return fmt.Errorf("%w: %w", weir.ErrUnavailable, e)
	}
	return setup.New(fmt.Sprintf("PostgreSQL refuses the user %s: %s (%s)", a.config.User, e.Message, e.Code), fix)
}
