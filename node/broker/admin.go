package broker

import (
	"fmt"
	"strconv"
	"strings"

	"lockstep/node"
	"lockstep/node/wire"
)

// serveBrokerConfig answers code 26: the settings as "key=value" lines, those that
// tools and operators ask for.
func (b *Broker) serveBrokerConfig(s node.SessionID, f *wire.Frame) {
	role := "SLAVE"
	if b.isMaster() {
		role = b.o.BrokerRole.String()
	}
	var text strings.Builder
	for _, p := range []struct{ key, value string }{
		{"brokerName", b.o.BrokerName},
		{"brokerClusterName", b.o.BrokerClusterName},
		{"brokerAddr", b.o.Address},
		{"namesrvAddr", strings.Join(b.o.NamesrvAddr, ";")},
		{"controllerAddr", strings.Join(b.o.ControllerAddr, ";")},
		{"enableControllerMode", "true"},
		{"brokerRole", role},
		{"flushDiskType", b.o.FlushDiskType.String()},
		{"allAckInSyncStateSet", strconv.FormatBool(b.o.AllAckInSyncStateSet)},
		{"inSyncReplicas", strconv.Itoa(b.o.InSyncReplicas)},
		{"minInSyncReplicas", strconv.Itoa(b.o.MinInSync())},
		{"totalReplicas", strconv.Itoa(b.o.TotalReplicas)},
		{"writeLease", b.o.WriteLease.String()},
		{"mappedFileSizeCommitLog", strconv.FormatInt(b.o.MappedFileSizeCommitLog, 10)},
		{"maxMessageSize", strconv.Itoa(b.o.MaxMessageSize)},
		{"defaultTopicQueueNums", strconv.Itoa(int(b.o.DefaultTopicQueueNums))},
		{"autoCreateTopicEnable", strconv.FormatBool(b.o.AutoCreateTopicEnable)},
		{"autoCreateSubscriptionGroup", strconv.FormatBool(b.o.AutoCreateSubscriptionGroup)},
		{"brokerPermission", strconv.Itoa(int(b.o.BrokerPermission))},
		{"slaveReadEnable", strconv.FormatBool(b.o.SlaveReadEnable)},
		{"longPollingEnable", strconv.FormatBool(b.o.LongPollingEnable)},
		{"traceOn", strconv.FormatBool(b.o.TraceOn)},
		{"regionId", b.o.RegionID},
		{"fileReservedTime", strconv.FormatInt(int64(b.o.FileReservedTime.Hours()), 10)},
	} {
		fmt.Fprintf(&text, "%s=%s\n", p.key, p.value)
	}
	// Settings are fixed for a broker's life, so their version never moves.
	version := string(wire.MarshalBody(wire.DataVersion{}))
	b.reply(s, f, wire.CodeSuccess, "", wire.EncodeExt(&wire.BrokerConfigResponse{Version: version}), []byte(text.String()))
}

// serveRuntimeInfo answers code 28. clusterList aborts when
// earliestMessageTimeStamp or commitLogDiskRatio is missing or no number
// (trap 47); what this broker does not measure is 0.
func (b *Broker) serveRuntimeInfo(now node.Now, s node.SessionID, f *wire.Frame) {
	t := map[string]string{}
	for _, k := range []string{"putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps"} {
		t[k] = "0 0 0"
	}
	for _, k := range []string{"sendThreadPoolQueue", "pullThreadPoolQueue", "litePullThreadPoolQueue", "queryThreadPoolQueue", "ackThreadPoolQueue"} {
		t[k+"Size"], t[k+"HeadWaitTimeMills"] = "0", "0"
	}
	for _, k := range []string{"timerReadBehind", "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps",
		"pageCacheLockTimeMills", "dispatchBehindBytes", "EndTransactionQueueSize", "earliestMessageTimeStamp",
		"msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning"} {
		t[k] = "0"
	}
	number := func(key string, v int64) { t[key] = strconv.FormatInt(v, 10) }
	t["brokerVersionDesc"] = "V5_3_3"
	t["brokerActive"] = strconv.FormatBool(b.isMaster())
	t["commitLogDiskRatio"], t["consumeQueueDiskRatio"] = "0.0", "0.0"
	number("bootTimestamp", b.bootMillis(now))
	t["runtime"] = runtimeText(int64(now.Mono.Sub(b.bootTime).Seconds()))
	number("sendThreadPoolQueueSize", int64(b.waiters.queue.len()))
	number("sendThreadPoolQueueCapacity", int64(b.o.MaxWaiters))
	number("pullThreadPoolQueueSize", int64(len(b.reads.waiting)))
	number("pullThreadPoolQueueCapacity", int64(b.o.MaxDiskReads))
	number("putMessageTimesTotal", b.counts.sends)
	number("putMessageFailedTimes", b.counts.sendsRefused)
	number("putMessageSizeTotal", b.counts.sendBytes)
	number("msgPutTotalTodayNow", b.counts.sends)
	number("msgGetTotalTodayNow", b.counts.pulled)
	number("commitLogMinOffset", int64(b.minOffset()))
	number("commitLogMaxOffset", int64(b.endOffset()))
	number("remainHowManyDataToCommit", 0)
	number("remainHowManyDataToFlush", int64(b.endOffset()-b.log.durable))
	b.replyBody(s, f, wire.KVTable{Table: t})
}

// bootMillis is the wall time of the start, computed backwards because only
// differences of the monotonic clock mean anything.
func (b *Broker) bootMillis(now node.Now) int64 {
	return now.Wall - now.Mono.Sub(b.bootTime).Milliseconds()
}

// runtimeText is RocketMQ's spelling of a run time.
func runtimeText(seconds int64) string {
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", seconds/86400, seconds/3600%24, seconds/60%60, seconds%60)
}
