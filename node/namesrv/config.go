package namesrv

import (
	"maps"
	"strings"

	"lockstep/node/wire"
)

// configTable is the KV store of codes 100–102 and 219: namespaces of keys. It
// lives in memory like everything here; whoever needs an entry (ordered topics)
// writes it to every name server.
type configTable struct {
	spaces  map[string]map[string]string
	entries int
}

func newConfigTable() configTable { return configTable{spaces: map[string]map[string]string{}} }

// namespace returns the entries of a namespace, nil when there are none. It is
// not to be changed.
func (c *configTable) namespace(name string) map[string]string { return c.spaces[name] }

func (c *configTable) put(space, key, value string) {
	m := c.spaces[space]
	if m == nil {
		m = map[string]string{}
		c.spaces[strings.Clone(space)] = m
	}
	if _, had := m[key]; !had {
		c.entries++
		key = strings.Clone(key)
	}
	m[key] = strings.Clone(value)
}

func (c *configTable) remove(space, key string) {
	m := c.spaces[space]
	if _, had := m[key]; !had {
		return
	}
	c.entries--
	delete(m, key)
	if len(m) == 0 {
		delete(c.spaces, space)
	}
}

// keyValue serves the four codes of the store.
func (n *NameServer) keyValue(f *wire.Frame) answer {
	var h wire.KVRequest
	if err := f.Header(&h); err != nil {
		return *refuse(wire.CodeSystemError, "KV config refused: %v", err)
	}
	if h.Namespace == "" || h.Key == "" && f.Head.Code != wire.ReqGetKVList {
		return *refuse(wire.CodeInvalidParameter, "KV config refused: namespace and key must not be empty")
	}
	switch f.Head.Code {
	case wire.ReqPutKV:
		return n.putConfig(&h)
	case wire.ReqDeleteKV:
		n.config.remove(h.Namespace, h.Key)
		return success()
	case wire.ReqGetKV:
		value, found := n.config.namespace(h.Namespace)[h.Key]
		if !found {
			return *refuse(wire.CodeQueryNotFound, "No config item, Namespace: %.80s Key: %.80s", h.Namespace, h.Key)
		}
		a := success()
		a.ext = wire.EncodeExt(&wire.KVResponse{Value: value})
		return a
	}
	space := n.config.namespace(h.Namespace)
	if len(space) == 0 {
		return *refuse(wire.CodeQueryNotFound, "No config item, Namespace: %.80s", h.Namespace)
	}
	return success().withBody(&wire.KVTable{Table: maps.Clone(space)})
}

func (n *NameServer) putConfig(h *wire.KVRequest) answer {
	if m := n.opt.MaxConfigBytes; len(h.Namespace) > m || len(h.Key) > m || len(h.Value) > m {
		return *refuse(wire.CodeInvalidParameter, "KV config refused: namespace, key or value longer than %d bytes (maxConfigBytes)", m)
	}
	_, had := n.config.namespace(h.Namespace)[h.Key]
	if !had && n.config.entries >= n.opt.MaxConfigEntries {
		return *refuse(wire.CodeSystemError, "KV config refused: %d entries, the limit (maxConfigEntries)", n.opt.MaxConfigEntries)
	}
	n.config.put(h.Namespace, h.Key, h.Value)
	return success()
}
