package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// firstIP is the address others reach this machine by when the file names none:
// the first IPv4 address that is no loopback.
func firstIP() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// probeTime bounds the look at one address before the start.
const probeTime = 250 * time.Millisecond

// checkControllers finds raft addresses among the addresses for brokers, the
// easiest of all mistakes: the port between controllers speaks gRPC, which says
// so itself as soon as one connects. Controllers that do not run yet are not
// judged.
func checkControllers(addrs []string) error {
	results := make(chan error, len(addrs))
	for _, a := range addrs {
		go func() { results <- checkController(a) }()
	}
	var errs []error
	for range addrs {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

func checkController(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, probeTime)
	if err != nil {
		return nil // not reachable now: nothing can be said
	}
	defer conn.Close()
	head := make([]byte, 9)
	conn.SetReadDeadline(time.Now().Add(probeTime)) // a fresh connection takes a deadline
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil // a remoting server waits for the first request
	}
	const settings = 4 // HTTP/2: a server's first frame is SETTINGS on stream 0
	if head[3] != settings || head[5]|head[6]|head[7]|head[8] != 0 {
		return fmt.Errorf("controllerAddr %s is no controller: it speaks first, with %q; give the address that the controllers' files name in controllerRPCAddrs", addr, head)
	}
	return fmt.Errorf("controllerAddr %s is a raft address, the port between controllers: give the one for brokers, which the controllers' files name in controllerRPCAddrs", addr)
}
