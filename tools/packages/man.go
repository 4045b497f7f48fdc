package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	subcommand = regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)
	flagLine   = regexp.MustCompile(`^ {2,6}((?:-\w, )?--\S+(?: \S+)?) {2,}(.*)$`)
)

// manPage returns the man page of a program of cobra in roff. help runs the program.
func manPage(program string, help func(args ...string) (string, error)) (string, error) {
	text, err := help("help")
	if err != nil {
		return "", err
	}
	short, rest, _ := strings.Cut(text, "\n")
	var page strings.Builder
	fmt.Fprintf(&page, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", strings.ToUpper(program), program, roff(strings.TrimSuffix(short, ".")))
	writeHelp(&page, rest)
	page.WriteString(".SH COMMANDS\n")
	if err := writeCommands(&page, []string{program}, text, help); err != nil {
		return "", err
	}
	fmt.Fprintf(&page, ".SH SEE ALSO\nhttps://github.com/floodweir/weir\n")
	return page.String(), nil
}

// writeCommands writes a section for each command that the help of its parent lists.
func writeCommands(page *strings.Builder, parent []string, text string, help func(args ...string) (string, error)) error {
	_, list, _ := strings.Cut(text, "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
		if m[1] == "help" || m[1] == "completion" {
			continue
		}
		command := append(parent[:len(parent):len(parent)], m[1])
		text, err := help(append([]string{"help"}, command[1:]...)...)
		if err != nil {
			return err
		}
		fmt.Fprintf(page, ".SS %s\n", roff(strings.Join(command, " ")))
		writeHelp(page, text)
		if err := writeCommands(page, command, text, help); err != nil {
			return err
		}
	}
	return nil
}

// writeHelp writes the help of a command: paragraphs, usage and flags, without the list of
// commands.
func writeHelp(page *strings.Builder, text string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		title, body, _ := strings.Cut(part, "\n")
		switch {
		case title == "Available Commands:" || strings.HasPrefix(part, "Use \""):
		case title == "Usage:" || title == "Examples:":
			fmt.Fprintf(page, ".PP\n%s\n.PP\n.nf\n%s\n.fi\n", title, roff(body))
		case title == "Flags:" || title == "Global Flags:":
			writeFlags(page, body)
		default:
			fmt.Fprintf(page, ".PP\n%s\n", roff(part))
		}
	}
}

// writeFlags writes a paragraph for each flag, with a hanging indent.
func writeFlags(page *strings.Builder, body string) {
	for line := range strings.SplitSeq(body, "\n") {
		if m := flagLine.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(page, ".TP\n\\fB%s\\fR\n%s\n", roff(m[1]), roff(m[2]))
		} else {
			fmt.Fprintf(page, "%s\n", roff(strings.TrimSpace(line)))
		}
	}
}

// roff returns text in which nothing has a meaning for roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
