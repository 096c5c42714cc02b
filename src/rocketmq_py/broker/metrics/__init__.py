"""The broker's metrics for Prometheus, under the names of Apache RocketMQ."""
