package namesrv

import (
	"fmt"
	"slices"
	"strconv"

	"lockstep/node/wire"
)

// orderTopicConfig is the namespace of RocketMQ's ordered topics in the KV store.
const orderTopicConfig = "ORDER_TOPIC_CONFIG"

// route serves code 105. The three answers are kept apart: a route; 17 for a
// topic that nobody has; and, while a fresh name server may simply not have heard
// of it, 1 "name server not ready", upon which clients ask elsewhere or again.
func (n *NameServer) route(f *wire.Frame) answer {
	n.stats.routes++
	var h wire.RouteRequest
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "route query refused: %v", err)
	}
	if why := nameFault(h.Topic); why != "" {
		return *refuse(wire.CodeInvalidParameter, "route query refused: topic %.80q %s", h.Topic, why)
	}
	r := n.routeOf(h.Topic)
	if len(r.BrokerDatas) == 0 {
		if !n.ready {
			return *refuse(wire.CodeSystemError, "name server not ready")
		}
		return *refuse(wire.CodeTopicNotExist, "No topic route info in name server for the topic: %s; create it at a broker, or wait for its brokers to register", h.Topic)
	}
	return success().withBody(&r)
}

// routeOf collects the groups that carry a topic, by name.
func (n *NameServer) routeOf(topic string) wire.RouteData {
	r := wire.RouteData{BrokerDatas: []wire.BrokerData{}, QueueDatas: []wire.QueueData{}, FilterServerTable: map[string][]string{}}
	for _, name := range n.groups.names {
		g := n.groups.byName[name]
		q, carries := g.topics[topic]
		if !carries || len(g.members) == 0 {
			continue
		}
		d := g.data()
		if n.opt.SupportActingMaster && g.acting && g.slot(masterRole) == nil && q.Perm&wire.PermWrite == 0 {
			delete(d.BrokerAddrs, g.least().role)
			d.BrokerAddrs[masterRole] = g.least().addr
		}
		r.BrokerDatas = append(r.BrokerDatas, d)
		r.QueueDatas = append(r.QueueDatas, q)
	}
	if n.opt.OrderMessageEnable {
		r.OrderTopicConf = n.config.namespace(orderTopicConfig)[topic]
	}
	return r
}

func (g *group) data() wire.BrokerData {
	return wire.BrokerData{BrokerAddrs: g.addrs(), BrokerName: g.name, Cluster: g.cluster, EnableActingMaster: g.acting}
}

// topicNames lists the topics of g, sorted.
func (g *group) topicNames() []string {
	out := make([]string, 0, len(g.topics))
	for t := range g.topics { // tidy:unordered sorted below
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// clusterInfo serves code 106.
func (n *NameServer) clusterInfo() answer {
	info := wire.ClusterInfo{BrokerAddrTable: map[string]wire.BrokerData{}, ClusterAddrTable: map[string][]string{}}
	for _, g := range n.groups.sorted() {
		if len(g.members) > 0 {
			info.BrokerAddrTable[g.name] = g.data()
			info.ClusterAddrTable[g.cluster] = append(info.ClusterAddrTable[g.cluster], g.name)
		}
	}
	return success().withBody(&info)
}

// allTopics serves code 206.
func (n *NameServer) allTopics() answer {
	if !n.opt.EnableAllTopicList {
		return *refuse(wire.CodeSystemError, "topic lists are off (enableAllTopicList=false)")
	}
	return success().withBody(&wire.TopicList{TopicList: n.topicNames("")})
}

// topicsByCluster serves code 224.
func (n *NameServer) topicsByCluster(f *wire.Frame) answer {
	cluster, _ := f.Head.Ext.Get("cluster")
	if why := nameFault(cluster); why != "" {
		return *refuse(wire.CodeInvalidParameter, "cluster %s", why)
	}
	if !n.opt.EnableTopicList {
		return *refuse(wire.CodeSystemError, "topic lists are off (enableTopicList=false)")
	}
	return success().withBody(&wire.TopicList{TopicList: n.topicNames(cluster)})
}

// topicNames lists the topics of one cluster, or of all for "", sorted.
func (n *NameServer) topicNames(cluster string) []string {
	out := []string{}
	for _, name := range n.groups.names {
		if g := n.groups.byName[name]; cluster == "" || g.cluster == cluster {
			out = append(out, g.topicNames()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// systemTopics serves code 304: names of clusters and broker groups, and one
// broker to ask for more.
func (n *NameServer) systemTopics() answer {
	list := wire.TopicList{TopicList: []string{}}
	for _, g := range n.groups.sorted() {
		if len(g.members) == 0 {
			continue
		}
		list.TopicList = append(list.TopicList, g.cluster, g.name)
		if list.BrokerAddr == "" {
			list.BrokerAddr = g.least().addr
		}
	}
	slices.Sort(list.TopicList)
	list.TopicList = slices.Compact(list.TopicList)
	return success().withBody(&list)
}

// deleteTopic serves code 216: success also when there is no such topic.
func (n *NameServer) deleteTopic(f *wire.Frame) answer {
	var h wire.DeleteTopicInNamesrvRequest
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "delete topic refused: %v", err)
	}
	if why := nameFault(h.Topic); why != "" {
		return *refuse(wire.CodeInvalidParameter, "delete topic refused: topic %.80q %s", h.Topic, why)
	}
	for _, g := range n.groups.sorted() {
		if h.ClusterName == "" || g.cluster == h.ClusterName {
			n.groups.deleteTopic(g, h.Topic)
		}
	}
	return success()
}

// setWritePerm serves codes 205 and 327: it changes the permission of all topics
// of a group until the next registration with a changed DataVersion.
func (n *NameServer) setWritePerm(f *wire.Frame, counter string, change func(int32) int32) answer {
	name, _ := f.Head.Ext.Get("brokerName")
	if why := nameFault(name); why != "" {
		return *refuse(wire.CodeInvalidParameter, "brokerName %s", why)
	}
	count := 0
	if g := n.groups.byName[name]; g != nil {
		for _, t := range g.topicNames() {
			q := g.topics[t]
			q.Perm = change(q.Perm)
			g.topics[t] = q
			count++
		}
	}
	a := success()
	a.ext.Set(counter, strconv.Itoa(count))
	if count == 0 {
		a.remark = fmt.Sprintf("broker group %s has no topics here", name)
	}
	return a
}
