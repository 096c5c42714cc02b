"""Words that servers of both kinds put into remarks."""

from __future__ import annotations

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""Where to read on, as Apache RocketMQ's servers tell; its clients add no address of their own to it."""
