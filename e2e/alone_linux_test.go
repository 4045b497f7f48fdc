package e2e_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// inside is set in the process that alone starts.
const inside = "WEIR_TEST_ALONE"

// alone runs the test again in a process with its own network namespace, where every port that
// a page names is free. It adds env to the environment and reports whether the test ran there.
// Without the permission for a namespace, the caller runs the test itself.
func alone(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		if err := loopbackUp(); err != nil {
			t.Fatal("loopback: ", err)
		}
		return false
	}
	var this []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		this = append(this, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(this, "/"), "-test.v", "-test.timeout=10m")
	cmd.Env = append(append(os.Environ(), inside+"=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	runtime.LockOSThread() // Pdeathsig refers to the thread that started the process
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true
	case errors.As(err, &exit):
		t.Errorf("in a network namespace: %v\n%s", err, out)
		return true
	}
	t.Logf("no network namespace: %v", err)
	return false
}

// loopbackUp enables the loopback interface of a new network namespace: RTM_NEWLINK of
// rtnetlink(7) for interface 1, with IFF_UP.
func loopbackUp() error {
	s, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	e := binary.NativeEndian
	var m []byte
	m = e.AppendUint32(m, syscall.SizeofNlMsghdr+syscall.SizeofIfInfomsg)
	m = e.AppendUint16(m, syscall.RTM_NEWLINK)
	m = e.AppendUint16(m, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	m = e.AppendUint32(m, 1)                 // sequence
	m = e.AppendUint32(m, 0)                 // port
	m = e.AppendUint32(m, syscall.AF_UNSPEC) // family, padding, type
	m = e.AppendUint32(m, 1)                 // the interface
	m = e.AppendUint32(m, syscall.IFF_UP)    // flags
	m = e.AppendUint32(m, syscall.IFF_UP)    // the flags to change
	if err := syscall.Sendto(s, m, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(s, reply, 0)
	if err != nil {
		return err
	}
	if n >= syscall.SizeofNlMsghdr+4 && e.Uint16(reply[4:]) == syscall.NLMSG_ERROR {
		if code := int32(e.Uint32(reply[syscall.SizeofNlMsghdr:])); code != 0 {
			return syscall.Errno(-code)
		}
	}
	return nil
}
