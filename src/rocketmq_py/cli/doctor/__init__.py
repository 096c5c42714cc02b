"""The command ``rocketmq doctor``."""
