"""The messages of the gRPC service ``apache.rocketmq.v2.MessagingService``, its status codes and metadata."""
