"""The command ``rocketmq dlq``."""
