//go:build !unix

package compare

import "os/exec"

func group(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
