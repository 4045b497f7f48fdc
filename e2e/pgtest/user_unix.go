//go:build unix

package pgtest

import (
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user is who the server runs as; other says that it is not who runs the test: PostgreSQL
// does not run as root.
func user() (uid, gid int, other bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return uid, gid, true
		}
	}
	return 65534, 65534, true
}

func attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is the test's alone
	if uid, gid, other := user(); other {
		a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	endWithTest(a)
	return a
}
