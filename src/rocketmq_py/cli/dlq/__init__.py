"""``rocketmq dlq``."""
