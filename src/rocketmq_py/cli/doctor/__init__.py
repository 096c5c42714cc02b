"""``rocketmq doctor``."""
