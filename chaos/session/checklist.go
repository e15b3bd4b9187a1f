package session

import (
	"fmt"
	"slices"

	"lockstep/node/wire"
)

// Item is one line of the checklist: a request that a stock producer or push
// consumer makes, and what the server must answer for it to work.
type Item struct {
	Step    string
	From    string // "client" unless the server asks
	To      string
	Request int32
	// Answers are the response codes that keep the session going; empty when nobody
	// waits for one.
	Answers []int32
	// Ext are fields that the answer with code 0 must carry.
	Ext []string
	// Body says that the answer with code 0 must carry one.
	Body bool
}

// Checklist is the session of a stock producer and push consumer in order
// (wire contracts 5.2).
var Checklist = []Item{
	{Step: "producer asks for the topic's route", To: "namesrv", Request: wire.ReqGetRoute, Answers: []int32{0, wire.CodeTopicNotExist}, Body: true},
	{Step: "producer sends with the long-name header", To: "broker", Request: wire.ReqSendMessage, Answers: []int32{0}, Ext: []string{"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}},
	{Step: "client heartbeats", To: "broker", Request: wire.ReqHeartbeat, Answers: []int32{0}},
	{Step: "consumer asks who is in its group", To: "broker", Request: wire.ReqGetConsumerList, Answers: []int32{0, wire.CodeSystemError}, Body: true},
	{Step: "consumer asks for its offset", To: "broker", Request: wire.ReqQueryConsumerOffset, Answers: []int32{0, wire.CodeQueryNotFound}, Ext: []string{"offset"}},
	{Step: "consumer pulls", To: "broker", Request: wire.ReqPull, Answers: []int32{0, wire.CodePullNotFound, wire.CodePullRetryImmediately},
		Ext: []string{"nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId"}, Body: true},
	{Step: "consumer commits", To: "broker", Request: wire.ReqUpdateConsumerOffset, Answers: []int32{0}},
	{Step: "group changes are announced", From: "broker", To: "client", Request: wire.ReqConsumerIDsChanged},
}

// Unticked names what the recording lacks or what was answered otherwise.
func Unticked(list []Exchange) []string {
	var out []string
	for _, item := range Checklist {
		if why := item.check(list); why != "" {
			out = append(out, item.Step+": "+why)
		}
	}
	return out
}

func (it *Item) check(list []Exchange) string {
	from := it.From
	if from == "" {
		from = "client"
	}
	good := false
	for i := range list {
		e := &list[i]
		if e.From != from || e.To != it.To || e.Request != it.Request {
			continue
		}
		switch {
		case len(it.Answers) == 0:
			good = true
		case e.Response >= 0 && !slices.Contains(it.Answers, e.Response):
			return fmt.Sprintf("answered %s", wire.ResponseName(e.Response))
		case e.Response == wire.CodeSuccess:
			for _, f := range it.Ext {
				if !slices.Contains(e.Answer, f) {
					return "the answer lacks " + f
				}
			}
			if it.Body && !e.Body {
				return "the answer lacks its body"
			}
			good = true
		}
	}
	if !good {
		return "never seen to succeed"
	}
	return ""
}
