"""``rocketmq group``."""
