"""``rocketmq message``."""
