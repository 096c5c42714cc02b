"""The command ``rocketmq topic``."""
