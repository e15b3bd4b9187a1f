package node

import (
	"strings"
	"testing"
)

func TestDialable(t *testing.T) {
	for addr, want := range map[string]bool{
		"10.0.0.1:10911": true, "127.0.0.1:1": true, "[::1]:65535": true, "[fe80::1%eth0]:9876": true, "broker-a:10911": true, "broker_a.ns.svc:10911": true,
		"broker.example.com.:10911": true, "10.example:9876": true, "a:1": true, "4u:1": true,
		"999.1.1.1:10911": false, "1.2.3:10911": false, "1.2.3.4.5:1": false, "256:1": false, "01.2.3.4:1": false, "0.0.0.0:1": false, "[::]:1": false, "::1:1": false,
		"[1.2.3.4]:1": false, "[::1:1": false, "a..b:1": false, ".a:1": false, "-a:1": false, "a-:1": false, "a b:1": false, "a/b:1": false, "a,b:1": false, "müller:1": false,
		":1": false, "a": false, "a:": false, "a:0": false, "a:65536": false, "a:-1": false, ".:1": false, "": false, "a\x00:1": false,
		strings.Repeat("a", 63) + ":1": true, strings.Repeat("a", 64) + ":1": false, strings.Repeat("a.", 127) + "a:1": false,
	} {
		if got := Dialable(addr); got != want {
			t.Errorf("Dialable(%q) = %v", addr, got)
		}
	}
}
