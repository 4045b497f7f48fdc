// Package weave runs the go command so that functions with a //weir:limit directive are
// limited for all callers. Their files stay unchanged.
//
//	code, err := weave.Run(ctx, weave.Config{Stdout: os.Stdout, Stderr: os.Stderr},
//		[]string{"build", "./..."})
//
// The go command accepts an overlay: files to read instead of those on disk. The
// overlay has a copy of x.go in which the function has another name. A further file has
// a function with the original name, which calls its guard and then the function. Line
// directives (//line) keep the positions of the user's file.
//
// The packages of the main modules (all modules of a workspace) that the command
// compiles are woven. Functions that weir generate has limited stay as they are.
//
// # Cache
//
// Woven files are named after the hash of their content, so the go command finds them
// unchanged and does not rebuild. The result of weaving unchanged packages is kept too.
// Files that are not used for some days are removed.
//
// # Errors
//
// An invalid directive is an error before the go command runs. If a package does not
// compile, the go command runs and reports that.
//
// # Concurrency
//
// Any number of processes may weave at the same time.
package weave
