package wire

// headerTypes lists every typed header, so that their layouts are built once.
var headerTypes = []any{
	SendMessageRequest{}, SendMessageResponse{}, PullRequest{}, PullResponse{},
	QueryOffsetRequest{}, UpdateOffsetRequest{}, QueueOffsetRequest{}, SearchOffsetRequest{},
	OffsetResponse{}, TimestampResponse{}, ViewMessageRequest{}, QueryMessageRequest{},
	QueryMessageResponse{}, SendBackRequest{},
	ClientHeartbeatResponse{}, UnregisterClientRequest{}, ConsumerGroupRequest{}, ProducerGroupRequest{},
	CreateTopicRequest{}, TopicRequest{}, AllTopicConfigRequest{}, AllTopicConfigResponse{},
	AllGroupConfigRequest{}, AllGroupConfigResponse{}, GroupConfigRequest{}, DeleteGroupRequest{},
	BrokerConfigResponse{}, ConsumeStatsRequest{},
	RouteRequest{}, RegisterBrokerRequest{}, RegisterBrokerResponse{}, UnregisterBrokerRequest{},
	DataVersionRequest{}, DataVersionResponse{}, DeleteTopicInNamesrvRequest{}, MemberGroupRequest{},
	MinBrokerIDChanged{}, KVRequest{}, KVResponse{}, ExchangeHAInfo{},
	BrokerHeartbeat{}, HeartbeatResponse{}, AlterSyncStateSetRequest{}, AlterSyncStateSetResponse{},
	ElectMasterRequest{}, ElectMasterResponse{}, NextBrokerIDRequest{}, NextBrokerIDResponse{},
	ApplyBrokerIDRequest{}, ApplyBrokerIDResponse{}, RegisterToControllerRequest{},
	RegisterToControllerResponse{}, ReplicaInfoRequest{}, ReplicaInfoResponse{}, ControllerMetadata{},
	RoleChanged{},
}
