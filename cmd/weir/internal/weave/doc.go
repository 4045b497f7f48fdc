// Package weave runs the go command so that functions with a //weir:limit directive are
// limited for everybody who calls them, and no file of theirs is touched.
//
//	code, err := weave.Run(ctx, weave.Config{Stdout: os.Stdout, Stderr: os.Stderr},
//		[]string{"build", "./..."})
//
// The go command takes an overlay: files that it reads instead of those on disk. Here it
// reads a copy of x.go in which the function has another name, and one more file with a
// function that has its name, asks its guard and calls it. Comments of the compiler
// (//line) keep the positions of the user's file in whatever names one.
//
// What is woven are the packages of the main modules (all modules of a workspace) that
// the command reaches. A function that weir generate has limited already is left alone.
//
// # What is kept
//
// Woven files are kept in a directory by what is in them, so that the go command finds
// them unchanged and builds nothing again, and so is the outcome of weaving packages that
// did not change since. What was not used for some days is removed.
//
// # Errors
//
// A directive that cannot be followed is an error before the go command runs. If a
// package does not compile, the go command runs and says so itself.
//
// # Concurrency
//
// Any number of processes may weave at the same time.
package weave
