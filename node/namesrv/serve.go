package namesrv

import (
	"fmt"

	"lockstep/node/wire"
)

// answer is a response on its way: code, remark, header, body.
type answer struct {
	code   int32
	remark string
	ext    wire.Ext
	body   []byte
}

func success() answer { return answer{code: wire.CodeSuccess} }

// refuse is an answer that says what was wrong; nothing has changed.
func refuse(code int32, format string, args ...any) *answer {
	return &answer{code: code, remark: fmt.Sprintf(format, args...)}
}

func (a answer) withRemark(text string) answer {
	a.remark = text
	return a
}

// withBody adds a JSON body.
func (a answer) withBody(v any) answer {
	a.body = wire.MarshalBody(v)
	return a
}

// serve is the one switch from request code to handler.
func (n *NameServer) serve(s *session, f *wire.Frame) answer {
	switch f.Head.Code {
	case wire.ReqGetRoute:
		return n.route(f)
	case wire.ReqRegisterBroker:
		return n.register(s, f)
	case wire.ReqUnregisterBroker:
		return n.unregister(s, f)
	case wire.ReqBrokerHeartbeat:
		return n.heartbeat(s, f)
	case wire.ReqQueryDataVersion:
		return n.dataVersion(s, f)
	case wire.ReqGetMemberGroup:
		return n.memberGroup(f)
	case wire.ReqGetClusterInfo:
		return n.clusterInfo()
	case wire.ReqGetAllTopics:
		return n.allTopics()
	case wire.ReqTopicsByCluster:
		return n.topicsByCluster(f)
	case wire.ReqNamesrvSystemTopics:
		return n.systemTopics()
	case wire.ReqDeleteTopicInNamesrv:
		return n.deleteTopic(f)
	case wire.ReqWipeWritePerm:
		return n.setWritePerm(f, "wipeTopicCount", func(p int32) int32 { return p &^ wire.PermWrite })
	case wire.ReqAddWritePerm:
		return n.setWritePerm(f, "addTopicCount", func(int32) int32 { return wire.PermRead | wire.PermWrite })
	case wire.ReqPutKV, wire.ReqGetKV, wire.ReqDeleteKV, wire.ReqGetKVList:
		return n.keyValue(f)
	}
	return *refuse(wire.CodeRequestCodeNotSupported, " request type %d not supported", f.Head.Code)
}
