"""The methods of gRPC that clients of RocketMQ 5 call, over the handlers of remoting requests."""
