package broker

import (
	"slices"
	"strings"

	"lockstep/node/wire"
	"lockstep/storage"
)

// tagFilter says which messages a consumer wants, by tag hash. Consumers compare
// the text again, so a hash collision only costs transfer.
type tagFilter struct {
	all  bool
	tags []int64 // hashes wanted, ascending
}

// everything matches each message.
var everything = tagFilter{all: true}

// matches reports whether a message with this tag hash may be wanted.
func (t *tagFilter) matches(tag int64) bool {
	return t.all || slices.Contains(t.tags, tag)
}

// maxTags bounds the tags of one subscription.
const maxTags = 1024

// parseTags reads a TAG expression: "*" or "", or tags separated by ||. why is ""
// or what is wrong.
func parseTags(expression string) (t tagFilter, why string) {
	if expression == "" || expression == "*" {
		return everything, ""
	}
	for tag := range strings.SplitSeq(expression, "||") {
		if tag = strings.TrimSpace(tag); tag != "" {
			t.tags = append(t.tags, storage.TagHash([]byte(tag)))
		}
	}
	switch {
	case len(t.tags) == 0:
		return t, "parse the consumer's subscription failed: no tag in " + quoteShort(expression)
	case len(t.tags) > maxTags:
		return t, "parse the consumer's subscription failed: too many tags"
	}
	slices.Sort(t.tags)
	t.tags = slices.Compact(t.tags)
	return t, ""
}

// filterOf computes a filter from a heartbeat's subscription. The text decides:
// code sets of Go clients are hashes of UTF-8 bytes, not of UTF-16 units, and
// come as texts (trap 15).
func filterOf(d *wire.SubscriptionData) (tagFilter, string) {
	if d.ExpressionType == wire.ExpressionSQL92 {
		return tagFilter{}, sqlRefused
	}
	if len(d.TagsSet) == 0 || d.SubString == "*" || d.SubString == "" {
		return parseTags(d.SubString)
	}
	return parseTags(strings.Join(d.TagsSet, "||"))
}

// sqlRefused is the remark for SQL92 expressions (enablePropertyFilter is off).
const sqlRefused = "The broker does not support consumer to filter message by SQL92"

// tagExpression reports whether an expression type is TAG, which may be unset.
func tagExpression(kind string) bool { return kind == "" || kind == wire.ExpressionTag }

// quoteShort quotes at most 80 bytes of foreign text for a remark.
func quoteShort(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return "\"" + s + "\""
}
