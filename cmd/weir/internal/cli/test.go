package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir/cmd/weir/internal/scenario"
	"github.com/floodweir/weir/weirfile"
)

// testFile matches the names of test files in a directory.
var testFile = regexp.MustCompile(`_test\.ya?ml$`)

func testCommand(w *app) *cobra.Command {
	var pattern, format string
	var verbose bool
	c := &cobra.Command{
		Use:   "test [FILE|DIRECTORY|GLOB]...",
		Short: "Test policy files with requests in virtual time",
		Long: "Run the requests of test files against their policy files and compare the decisions. Time is virtual:\n" +
			"a test of a month takes milliseconds. No server and no store is needed.\n\n" +
			"A directory stands for the files *_test.yaml in it and below it; the default is the current one.\n" +
			"- stands for standard input.\n" +
			"`weir schema --tests` prints the JSON Schema of test files.\n\n" +
			"Exit codes: 0 all as expected, 1 a decision differs, 2 invalid file, no test, or wrong usage.",
		Example: "  weir test\n  weir test weir_test.yaml --run login -v\n  weir test --format junit policies/ > report.xml",
	}
	f := c.Flags()
	f.StringVar(&pattern, "run", "", "run only the tests whose name matches `REGEXP`")
	f.StringVar(&format, "format", "text", "`FORMAT` of the output: text, json or junit")
	f.BoolVarP(&verbose, "verbose", "v", false, "print the tests that pass too")
	asJSON := false
	jsonFlag(c, &asJSON)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if asJSON {
			format = "json"
		}
		if !slices.Contains([]string{"text", "json", "junit"}, format) {
			return &exit{exitUsage, fmt.Errorf("test: --format %q: want text, json or junit", format)}
		}
		name, err := regexp.Compile(pattern)
		if err != nil {
			return &exit{exitUsage, fmt.Errorf("test: --run %q: want a regular expression: %w", pattern, err)}
		}
		files, err := testFiles(args)
		if err != nil {
			return &exit{exitUsage, fmt.Errorf("test: %w", err)}
		}
		reports, err := w.runTests(files, name)
		if err != nil {
			return err
		}
		return printReports(w.stdout, reports, format, verbose)
	}
	return c
}

// testFiles returns the test files that args name.
func testFiles(args []string) ([]string, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	var files []string
	for _, arg := range args {
		found := []string{arg}
		info, err := os.Stat(arg)
		switch {
		case arg == "-": // standard input
			err = nil
		case err == nil && info.IsDir():
			found, err = testFilesIn(arg)
		case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(arg, "*?["):
			found, err = filepath.Glob(arg)
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: want a test file, or a directory with files *_test.yaml; got none", arg)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func testFilesIn(dir string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && testFile.MatchString(d.Name()):
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// runTests runs the tests whose name matches. It prints every fault of invalid files.
func (w *app) runTests(files []string, name *regexp.Regexp) ([]scenario.Report, error) {
	var reports []scenario.Report
	invalid, tests := false, 0
	for _, path := range files {
		data, err := w.read(path)
		if err != nil {
			return nil, &exit{exitUsage, fmt.Errorf("test: %w", err)}
		}
		file, err := scenario.Parse(path, data, scenario.Config{Load: loadComplete})
		if err != nil {
			printFaults(w.stderr, err)
			invalid = true
			continue
		}
		report := file.Run(name.MatchString)
		if tests += len(report.Tests); len(report.Tests) > 0 {
			reports = append(reports, report)
		}
	}
	switch {
	case invalid:
		return nil, &exit{code: exitUsage}
	case tests == 0:
		return nil, &exit{exitUsage, fmt.Errorf("test: --run %q: no test has such a name", name)}
	}
	return reports, nil
}

// loadComplete reads a policy file with all checks of `weir check`.
func loadComplete(path string) (*weirfile.File, error) {
	f, err := weirfile.Load(path)
	if err == nil {
		err = complete(f)
	}
	return f, err
}

// printReports prints the results and returns the exit code.
func printReports(out io.Writer, reports []scenario.Report, format string, verbose bool) (err error) {
	switch format {
	case "json":
		err = scenario.WriteJSON(out, reports)
	case "junit":
		err = scenario.WriteJUnit(out, reports)
	default:
		for i := range reports {
			err = errors.Join(err, reports[i].WriteText(out, verbose))
		}
	}
	if err != nil {
		return &exit{exitError, err}
	}
	for i := range reports {
		if reports[i].Failed() > 0 {
			return &exit{code: exitFailed}
		}
	}
	return nil
}
