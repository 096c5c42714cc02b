"""Sending: attempts, queues of waiting sends, and avoidance of slow brokers. Producers, traces and consumers use it."""
