package scenarios

import (
	"fmt"
	"strconv"
	"strings"
)

// Ports of simulated nodes; every node has a host of its own.
const (
	brokerPort     = 10911
	haPort         = 10912
	controllerPort = 19876
	raftPort       = 19877
	namesrvPort    = 9876
)

// ClusterName is brokerClusterName of every drill.
const ClusterName = "DrillCluster"

// GroupName is the brokerName of the g-th group, from 0.
func GroupName(g int) string {
	if g >= 0 && g < len(groupNames) {
		return groupNames[g]
	}
	return "broker-" + string(rune('a'+g))
}

// groupNames are the usual ones: judges ask for a name at every frame.
var groupNames = [...]string{"broker-a", "broker-b", "broker-c"}

// BrokerNode is the node name of the b-th broker of the g-th group, from 0.
func BrokerNode(g, b int) string { return string(rune('a'+g)) + strconv.Itoa(b+1) }

// ControllerNode is the node name of the i-th controller, from 0.
func ControllerNode(i int) string { return "c" + strconv.Itoa(i+1) }

// NamesrvNode is the node name of the i-th name server, from 0.
func NamesrvNode(i int) string { return fmt.Sprintf("n%d", i+1) }

// ProducerNode and WatcherNode are the node names of clients, from 0.
func ProducerNode(i int) string { return fmt.Sprintf("p%d", i+1) }

// WatcherNode is the node name of a watching consumer, from 0.
func WatcherNode(i int) string { return fmt.Sprintf("w%d", i+1) }

func addr(host string, port int) string { return fmt.Sprintf("%s:%d", host, port) }

// parseSet reads the members of a set printed as {1 2 3}.
func parseSet(s string) []string { return strings.Fields(strings.Trim(s, "{}")) }
