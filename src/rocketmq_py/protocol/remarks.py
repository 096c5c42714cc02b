"""Texts in the remarks of responses of brokers and name servers."""

from __future__ import annotations

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""Hint that Apache RocketMQ's servers append to some remarks."""

NO_FILTER = "does not support consumer to filter message by"
"""Part of the remark that refuses an SQL subscription while the broker's ``enablePropertyFilter`` is off."""
