"""The command ``rocketmq message``."""
