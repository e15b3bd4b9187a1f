package broker

import (
	"lockstep/internal/event"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

// services is the state behind what clients and admin tools see. Broker embeds
// it. The replicated part is meta, a function of the log; everything else is
// volatile and dies with the role or the process: offset commits on their way
// into the log, connected clients, held pulls, queue locks, disk reads.
type services struct {
	meta    metaState     // topics, groups, offsets: a function of the log up to its end
	imports []metaEntry   // tables of a Java broker, published at the first mastership (M10)
	commits offsetCommits // offset commits not yet in the log (M4, M6)
	groups  groupWishes   // groups met while the log was not writable (M6)
	clients clientTable
	pulls   heldPulls
	locks   queueLocks
	reads   diskReads

	system      map[string]wire.TopicConfig // topics that exist by configuration, see systemTopics
	robin       map[string]uint32           // topic → next queue for sends that leave the choice to the broker
	topicsGen   uint64                      // rises when the topic table must be registered again
	host        wire.OffsetMessageID
	slab        []wire.SendMessageResponse // send answers, allocated in blocks
	pullSlab    []wire.PullResponse        // pull answers, likewise
	counts      serviceCounts
	metaRefused uint64    // metadata records of a version this broker cannot read
	stopped     bool      // the caches of a clean stop are written
	bootTime    node.Time // of the first settle
	booted      bool
}

// serviceCounts are totals since the start, for code 28 and metrics.
type serviceCounts struct {
	sends, sendBytes, sendsRefused int64
	pulls, pulled, pulledBytes     int64
	held, cold                     int64
	commits                        int64
}

func newServices(o ServiceOptions) services {
	return services{
		meta:    newMetaState(),
		commits: newOffsetCommits(),
		clients: newClientTable(),
		pulls:   newHeldPulls(),
		locks:   newQueueLocks(),
		reads:   newDiskReads(),
		robin:   map[string]uint32{},
	}
}

// serve answers one request of a client or an admin tool. Whatever is wrong with
// a request is answered with RocketMQ's code and a remark, and changes nothing.
func (b *Broker) serve(now node.Now, s node.SessionID, f *wire.Frame) {
	if f.Head.Response() {
		return // answers to notices, which nobody waits for
	}
	switch f.Head.Code {
	case wire.ReqSendMessage, wire.ReqSendMessageV2, wire.ReqSendBatch:
		b.serveSend(now, s, f)
	case wire.ReqPull, wire.ReqLitePull:
		b.servePull(now, s, f)
	case wire.ReqQueryConsumerOffset:
		b.serveQueryOffset(now, s, f)
	case wire.ReqUpdateConsumerOffset:
		b.serveUpdateOffset(now, s, f)
	case wire.ReqHeartbeat:
		b.serveHeartbeat(now, s, f)
	default:
		b.serveRare(now, s, f)
	}
}

// serveRare answers the requests off the hot path.
func (b *Broker) serveRare(now node.Now, s node.SessionID, f *wire.Frame) {
	switch f.Head.Code {
	case wire.ReqGetMaxOffset, wire.ReqGetMinOffset, wire.ReqGetEarliestStoreTime:
		b.serveQueueOffset(now, s, f)
	case wire.ReqSearchOffset:
		b.serveSearchOffset(now, s, f)
	case wire.ReqViewMessage:
		b.serveViewMessage(now, s, f)
	case wire.ReqUnregisterClient:
		b.serveUnregister(now, s, f)
	case wire.ReqGetConsumerList:
		b.serveConsumerList(s, f)
	case wire.ReqCheckClientConfig:
		b.serveCheckClient(s, f)
	case wire.ReqGetConsumerConnections:
		b.serveConsumerConnections(s, f)
	case wire.ReqGetProducerConnections:
		b.serveProducerConnections(s, f)
	case wire.ReqLockBatch:
		b.serveLock(now, s, f)
	case wire.ReqUnlockBatch:
		b.serveUnlock(now, s, f)
	case wire.ReqSendBack, wire.ReqEndTransaction, wire.ReqRecallMessage:
		b.reject(s, f, wire.CodeRequestCodeNotSupported, notYet(f.Head.Code))
	default:
		b.serveAdmin(now, s, f)
	}
}

// serveAdmin answers administration requests; everything left over is code 3.
func (b *Broker) serveAdmin(now node.Now, s node.SessionID, f *wire.Frame) {
	switch f.Head.Code {
	case wire.ReqCreateTopic:
		b.serveCreateTopic(now, s, f)
	case wire.ReqDeleteTopicInBroker:
		b.serveDeleteTopic(now, s, f)
	case wire.ReqGetAllTopicConfig:
		b.serveAllTopics(s, f)
	case wire.ReqGetTopicConfig:
		b.serveTopicConfig(s, f)
	case wire.ReqUpdateGroup:
		b.serveUpdateGroup(now, s, f)
	case wire.ReqDeleteGroup:
		b.serveDeleteGroup(now, s, f)
	case wire.ReqGetAllGroupConfig:
		b.serveAllGroups(s, f)
	case wire.ReqGetGroupConfig:
		b.serveGroupConfig(s, f)
	case wire.ReqGetTopicStats:
		b.serveTopicStats(now, s, f)
	case wire.ReqGetConsumeStats:
		b.serveConsumeStats(now, s, f)
	case wire.ReqGetBrokerConfig:
		b.serveBrokerConfig(s, f)
	case wire.ReqGetBrokerRuntimeInfo:
		b.serveRuntimeInfo(now, s, f)
	case wire.ReqGetAllConsumerOffset:
		b.serveAllOffsets(s, f)
	case wire.ReqGetAllDelayOffset:
		b.replyBody(s, f, wire.DelayOffsets{OffsetTable: map[int32]int64{}})
	case wire.ReqGetAllMessageRequestMode:
		b.replyBody(s, f, wire.RequestModes{Modes: map[string]map[string]wire.RequestMode{}})
	default:
		b.reject(s, f, wire.CodeRequestCodeNotSupported, notSupported(f.Head.Code))
	}
}

// settleServices derives what the services owe: records for pending commits and
// groups, checkpoints, answers to held pulls, expiry, notices. Records first, so
// that what this batch asked for is already on its way when consumers wake up.
func (b *Broker) settleServices(now node.Now) {
	if !b.booted {
		b.booted, b.bootTime = true, now.Mono
	}
	b.settleMeta(now)
	b.settlePulls(now)
	b.settleClients(now)
}

// servicesDeadline is the next instant at which settleServices would act.
func (b *Broker) servicesDeadline() node.Time {
	return min(b.metaDeadline(), b.pulls.deadline(), b.clients.nextScan)
}

// servicesSessionDown forgets a session: its client leaves its groups at once
// (the Go client never unregisters), its held pulls have nobody to answer.
func (b *Broker) servicesSessionDown(now node.Now, s node.SessionID) {
	b.clients.sessionDown(s)
	b.pulls.dropSession(s)
}

// roleChangedServices is called when this broker has become master (promotion
// finished) or has become a slave. Volatile promises end with the role.
func (b *Broker) roleChangedServices(now node.Now) {
	b.topicsGen++
	b.commits.drop(b)
	b.groups.drop()
	b.locks = newQueueLocks()
	if !b.isMaster() {
		b.answerHeldPulls(now)
		return
	}
	b.publishTables(now)
}

// servicesDiskDone routes the result of a disk operation of the services.
func (b *Broker) servicesDiskDone(now node.Now, r storage.Result) {
	read, ok := b.reads.take(r.Op.ID)
	if !ok {
		if r.Err != nil { // a cache of a clean stop: rebuilt from the log at the next start
			b.emit(event.Event{Kind: event.DiskFailed, Text: "save " + r.Op.Name + ": " + r.Err.Error()})
		}
		return
	}
	read.done(b, now, r)
}

// serviceGauges reports the services' numbers, in a fixed order.
func (b *Broker) serviceGauges(report func(name string, value float64)) {
	report("broker_messages_in_total", float64(b.counts.sends))
	report("broker_messages_in_bytes_total", float64(b.counts.sendBytes))
	report("broker_sends_refused_total", float64(b.counts.sendsRefused))
	report("broker_pulls_total", float64(b.counts.pulls))
	report("broker_messages_out_total", float64(b.counts.pulled))
	report("broker_messages_out_bytes_total", float64(b.counts.pulledBytes))
	report("broker_pulls_held", float64(b.pulls.live))
	report("broker_pulls_held_total", float64(b.counts.held))
	report("broker_pulls_from_disk_total", float64(b.counts.cold))
	report("broker_disk_reads_waiting", float64(len(b.reads.waiting)))
	report("broker_offset_commits_total", float64(b.counts.commits))
	report("broker_offset_commits_pending", float64(len(b.commits.dirty)))
	report("broker_clients", float64(b.clients.count))
	report("broker_consumer_groups_online", float64(len(b.clients.consumers)))
	report("broker_topics", float64(len(b.meta.topics)))
	report("broker_subscription_groups", float64(len(b.meta.groups)))
	report("broker_queue_locks", float64(b.locks.count))
	report("broker_metadata_records_unread_total", float64(b.metaRefused))
}

// reject answers f with an error code and says so in an event.
func (b *Broker) reject(s node.SessionID, f *wire.Frame, code int32, remark string) {
	b.emit(event.Event{Kind: event.RequestRefused, Code: code, Count: int64(f.Head.Code), Text: remark})
	b.reply(s, f, code, remark, nil, nil)
}

// header decodes the typed header of f. On failure it answers and returns false:
// Java only logs a missing field and fails later with the same code.
func (b *Broker) header(s node.SessionID, f *wire.Frame, h any) bool {
	if err := f.Header(h); err != nil {
		b.reject(s, f, wire.CodeSystemError, err.Error())
		return false
	}
	return true
}

// body decodes the JSON body of f. On failure it answers and returns false.
func (b *Broker) body(s node.SessionID, f *wire.Frame, v any) bool {
	if err := wire.UnmarshalBody(f.Body, v); err != nil {
		b.reject(s, f, wire.CodeSystemError, "request body: "+err.Error())
		return false
	}
	return true
}

// replyOK answers success with a typed header, which may be nil.
func (b *Broker) replyOK(s node.SessionID, f *wire.Frame, header any) {
	b.reply(s, f, wire.CodeSuccess, "", wire.EncodeExt(header), nil)
}

// replyBody answers success with a JSON body.
func (b *Broker) replyBody(s node.SessionID, f *wire.Frame, v any) {
	b.replyTyped(s, f, nil, v)
}

// replyTyped answers success with a typed header and a JSON body.
func (b *Broker) replyTyped(s node.SessionID, f *wire.Frame, header, v any) {
	b.reply(s, f, wire.CodeSuccess, "", wire.EncodeExt(header), wire.MarshalBody(v))
}
