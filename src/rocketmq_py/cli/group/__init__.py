"""The command ``rocketmq group``."""
