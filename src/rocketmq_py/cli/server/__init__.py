"""``rocketmq serve`` and ``rocketmq namesrv``, their settings and logs."""
