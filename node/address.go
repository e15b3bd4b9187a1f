package node

import (
	"net/netip"
	"strconv"
	"strings"
)

// Limits of a host name (RFC 1123), in bytes.
const (
	maxHostBytes  = 253
	maxLabelBytes = 63
)

// Dialable reports whether others can reach addr, as far as its text tells: an IP
// address (IPv6 in brackets) that is not the unspecified one, or a host name, and a
// port of 1..65535. Names are resolved by the host.
func Dialable(addr string) bool {
	i := strings.LastIndexByte(addr, ':')
	if i <= 0 {
		return false
	}
	port, err := strconv.ParseUint(addr[i+1:], 10, 16)
	return err == nil && port > 0 && dialableHost(addr[:i])
}

func dialableHost(host string) bool {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return ok && err == nil && ip.Is6() && !ip.IsUnspecified()
	}
	// A name whose last label is a number is an address that somebody mistyped: no
	// top-level domain is one.
	if last := host[strings.LastIndexByte(host, '.')+1:]; strings.Trim(last, "0123456789") == "" && last != "" {
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Is4() && !ip.IsUnspecified()
	}
	return hostName(host)
}

// hostName reports whether name is made of labels of letters, digits, hyphens and,
// as container networks have them, underscores. A final dot is allowed.
func hostName(name string) bool {
	if len(name) > maxHostBytes {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, notInLabel) {
			return false
		}
	}
	return true
}

func notInLabel(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}
