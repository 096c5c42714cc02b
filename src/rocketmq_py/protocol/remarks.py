"""Words that servers of both kinds put into remarks."""

from __future__ import annotations

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""Where to read on, as Apache RocketMQ's servers tell; its clients add no address of their own to it."""

NO_FILTER = "does not support consumer to filter message by"
"""What a broker says of a subscription by properties unless ``enablePropertyFilter`` is on."""
