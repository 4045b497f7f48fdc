package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/run"
)

func serveCommand(w *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve [FILE]",
		Short: "Run the gateway and the other interfaces",
		Long: "Run the gateway and the other interfaces with the policies of FILE, or a demo without FILE.\n\n" +
			"Every flag has an environment variable: --listen-http is WEIR_LISTEN_HTTP. A flag takes precedence over\n" +
			"the environment, and the environment over the file. SIGINT or SIGTERM stops the program; a second signal\n" +
			"kills it. The policies and routes of FILE are reloaded when it changes and on SIGHUP; an invalid file is ignored.\n" +
			"The same holds for passwords and certificates in files that --store names. A Redis that does not respond within\n" +
			"10 seconds, or whose configuration is wrong, is an error at the start, unless --start-degraded is true.\n\n" +
			"Exit codes: 0 stopped by a signal, 1 invalid file, or an error at the start or while running,\n" +
			"2 wrong usage or unreadable file.",
		Args: usage(cobra.MaximumNArgs(1)),
	}
	for _, s := range config.Settings() {
		c.Flags().String(s.Name, s.Default, s.Usage)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		source := config.Source{Flags: map[string]string{}, Env: w.getenv}
		if len(args) == 1 {
			if source.File = args[0]; source.File == "" {
				return &exit{exitUsage, errors.New(`serve: FILE "": want the name of a policy file, or no argument for the demo`)}
			}
		}
		for _, s := range config.Settings() {
			if f := c.Flags().Lookup(s.Name); f.Changed {
				source.Flags[s.Name] = f.Value.String()
			}
		}
		cfg, err := config.Load(source)
		if err != nil {
			return &exit{startCode(source, err), err}
		}
		return serve(c.Context(), w, run.Input{
			Config: cfg, Reload: func() (*config.Config, error) { return config.Load(source) }, Getenv: w.getenv, Version: version(),
		})
	}
	return c
}

// startCode returns the exit code of an invalid configuration. If the file is valid, a flag or a variable is not.
func startCode(s config.Source, err error) int {
	if s.File != "" {
		if _, invalid := loadComplete(s.File); invalid != nil {
			return fileCode(err)
		}
	}
	return exitUsage
}

// serve runs a program until a signal to stop. SIGHUP reloads its configuration.
func serve(ctx context.Context, w *app, in run.Input) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal kills the process
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	in.Hangup = hangup
	return run.Serve(ctx, in, w.stdout, w.stderr)
}
