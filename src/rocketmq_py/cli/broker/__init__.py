"""The command ``rocketmq broker``."""
