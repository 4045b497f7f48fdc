package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/postgres"
	"github.com/floodweir/weir/cmd/weir/internal/progress"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
)

func migrateCommand(w *app) *cobra.Command {
	var store string
	var print bool
	c := &cobra.Command{
		Use:   "migrate --store postgres://HOST/DATABASE",
		Short: "Create or update the tables and functions of a PostgreSQL store",
		Long: "Create or update the tables and functions of a PostgreSQL store, all or none. The user of the URL needs to create tables; that of weir serve does not.\n\n" +
			"The table " + postgres.VersionTable + " has the versions in the format of goose. With --sql, print the statements instead.",
		Example: "  weir migrate --store 'postgres://postgres@db.internal/weir'\n" +
			"  weir migrate --sql | psql weir",
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if print {
				text, err := postgres.Schema()
				if err == nil {
					_, err = fmt.Fprint(w.stdout, text)
				}
				return err
			}
			return w.migrate(c.Context(), cmp.Or(store, w.getenv("WEIR_STORE")))
		},
	}
	c.Flags().StringVar(&store, "store", "", "`URL` of the database; WEIR_STORE if omitted")
	c.Flags().BoolVar(&print, "sql", false, "print the statements")
	return c
}

func (w *app) migrate(ctx context.Context, store string) error {
	if !setup.Postgres(store) {
		return &exit{exitUsage, errors.New("--store: want the URL of a PostgreSQL, such as postgres://postgres@db.internal/weir (or WEIR_STORE)")}
	}
	a, err := postgres.ParseURL(store)
	if err != nil {
		return &exit{exitUsage, fmt.Errorf("--store %q: %w", config.Redacted(store), err)}
	}
	p := progress.Start(w.stderr, progress.Doing("waiting for "+config.Redacted(store)))
	from, to, err := postgres.Migrate(ctx, a)
	p.Done()
	switch {
	case err != nil:
		return fmt.Errorf("migrate: store %s: %w", config.Redacted(store), err)
	case from == to:
		_, err = fmt.Fprintf(w.stdout, "the schema is up to date (version %d)\n", to)
	default:
		_, err = fmt.Fprintf(w.stdout, "schema migrated from version %d to %d\n", from, to)
	}
	return err
}
