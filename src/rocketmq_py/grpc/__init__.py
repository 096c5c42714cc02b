"""The methods of gRPC that clients of RocketMQ 5 call, as requests of remoting to brokers."""
