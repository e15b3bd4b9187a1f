package live

import "container/heap"

// call is something to be done at a time, by whoever holds the world then.
type call struct {
	at    int64
	order uint64 // of equal times, the first asked for comes first
	do    func()
}

// calls is a heap of what is to be done.
type calls struct {
	list []call
	n    uint64
}

// Len is the number of calls that wait.
func (c *calls) Len() int { return len(c.list) }

// Less orders by time, then by age.
func (c *calls) Less(i, j int) bool {
	a, b := &c.list[i], &c.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// Swap is part of heap.Interface.
func (c *calls) Swap(i, j int) { c.list[i], c.list[j] = c.list[j], c.list[i] }

// Push is part of heap.Interface.
func (c *calls) Push(x any) { c.list = append(c.list, x.(call)) }

// Pop is part of heap.Interface.
func (c *calls) Pop() any {
	last := c.list[len(c.list)-1]
	c.list[len(c.list)-1] = call{}
	c.list = c.list[:len(c.list)-1]
	return last
}

func (c *calls) add(at int64, do func()) {
	c.n++
	heap.Push(c, call{at, c.n, do})
}

// next is when the first is due; ok is false when none waits.
func (c *calls) next() (at int64, ok bool) {
	if len(c.list) == 0 {
		return 0, false
	}
	return c.list[0].at, true
}

// due takes the first one that is due by now.
func (c *calls) due(now int64) (do func(), ok bool) {
	if at, ok := c.next(); !ok || at > now {
		return nil, false
	}
	return heap.Pop(c).(call).do, true
}
