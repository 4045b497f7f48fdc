//go:build unix

package pgtest

import (
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user returns the user of the server. other reports that it is not the user of the test,
// because PostgreSQL does not run as root.
func user() (uid, gid int, other bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	if u, err := osuser.Lookup("postgres"); err == nil {
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return uid, gid, true
		}
	}
	return 65534, 65534, true // the unprivileged user
}

func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal goes to the test alone
	if uid, gid, other := user(); other {
		a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	endWithTest(a)
	return a
}
