package host

import (
	"errors"
	"fmt"
	"syscall"
)

// ListenError adds to the error of listening on an address what to do about it.
func ListenError(what, addr string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = " (another process uses the port: stop it or configure another port)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = " (this machine has no such address: set bindAddress to one of its own, or to 0.0.0.0 for all)"
	case errors.Is(err, syscall.EACCES):
		remedy = " (the port needs a privilege that this process lacks: configure one above 1023)"
	}
	return fmt.Errorf("listen for %s on %s: %w%s", what, addr, err, remedy)
}
