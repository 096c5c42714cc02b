"""The commands ``rocketmq serve`` and ``rocketmq namesrv``, and the options for settings and logs."""
