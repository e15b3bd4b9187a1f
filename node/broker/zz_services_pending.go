package broker

import (
	"lockstep/internal/ha"
	"lockstep/node"
	"lockstep/node/wire"
	"lockstep/storage"
)

type services struct{}

// ServiceOptions are the options of the services.
type ServiceOptions struct{}

// DefaultServiceOptions are the services' defaults.
func DefaultServiceOptions() ServiceOptions { return ServiceOptions{} }

func newServices(o ServiceOptions) services                           { return services{} }
func (b *Broker) serve(now node.Now, s node.SessionID, f *wire.Frame) {}
func (b *Broker) answer(now node.Now, w waiter, v verdict)            {}
func (b *Broker) applyMeta(record []byte, at ha.LogOffset)            {}
func (b *Broker) resetMeta(records [][]byte)                          {}
func (b *Broker) settleServices(now node.Now)                         {}
func (b *Broker) servicesDeadline() node.Time                         { return node.Never }
func (b *Broker) servicesSessionDown(now node.Now, s node.SessionID)  {}
func (b *Broker) roleChangedServices(now node.Now)                    {}
func (b *Broker) registrationGeneration() uint64                      { return 0 }
func (b *Broker) servicesDiskDone(now node.Now, r storage.Result)     {}
func (b *Broker) stopServices(now node.Now)                           {}
func (b *Broker) metaCheckpoint() (start, end ha.LogOffset)           { return 0, 0 }
func (b *Broker) importConfig(files []storage.ConfigFile)             {}
