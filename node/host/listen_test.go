package host

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The remedy of a listener that fails is that of its reason.
func TestListenError(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EADDRINUSE: "another process uses the port", syscall.EADDRNOTAVAIL: "set bindAddress to one of its own", syscall.EACCES: "above 1023", syscall.EMFILE: "too many open files",
	} {
		err := ListenError("probes", "8.8.8.8:1", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", errno)})
		if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "listen for probes on 8.8.8.8:1: ") || strings.Contains(err.Error(), "another process") != (errno == syscall.EADDRINUSE) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
