//go:build unix

package compare

import (
	"os/exec"
	"syscall"
)

// group makes a process the leader of a group, which its servers join.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
