package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/rlsenv"
	"github.com/floodweir/weir/cmd/weir/internal/run"
)

func ratelimitCommand(w *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ratelimit",
		Short: "Run in the place of envoyproxy/ratelimit",
		Long: "Run in the place of envoyproxy/ratelimit: with its environment variables, ports and endpoints.\n\n" +
			"At the start the log lists the variables that have no effect. An invalid value, and one that is not\n" +
			"supported, is an error. WEIR_ variables of weir serve set what envoyproxy/ratelimit does not have.\n" +
			"If the program is run under the name ratelimit, it runs this command and ignores all arguments.\n\n" +
			"Exit codes: 0 stopped by a signal, 1 an error at the start or while running, 2 an invalid variable.",
		Args: usage(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s := rlsenv.Source{Getenv: w.getenv}
			for _, one := range os.Environ() {
				name, _, _ := strings.Cut(one, "=")
				s.Names = append(s.Names, name)
			}
			cfg, err := rlsenv.Read(s)
			if err != nil {
				return &exit{exitUsage, err}
			}
			return serve(c.Context(), w, run.Input{Config: cfg, Getenv: cfg.RateLimit.Getenv, Version: version()})
		},
	}
}
