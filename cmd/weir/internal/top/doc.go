// Package top shows the traffic of a running program in a terminal, as `weir top`.
//
//	c := top.Client{URL: admin, Token: token}
//	err := top.Watch(ctx, c, os.Stdin, os.Stdout)
//
// Watch follows /v1/events of the admin interface and repeats the connection when it ends.
// Once prints one table, and Lines JSON lines for programs.
//
// Names and keys come from other machines, and keys from clients. Runes that are not printable
// are replaced, so they cannot control the terminal.
package top
