"""``rocketmq topic``."""
