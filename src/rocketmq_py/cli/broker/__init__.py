"""``rocketmq broker``."""
