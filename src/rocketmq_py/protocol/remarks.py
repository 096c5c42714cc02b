"""Texts that brokers and name servers put into remarks."""

from __future__ import annotations

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""Hint that Apache RocketMQ's servers append to some remarks."""

NO_FILTER = "does not support consumer to filter message by"
"""Remark for a subscription with an SQL expression while ``enablePropertyFilter`` is off."""
