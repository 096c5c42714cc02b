"""Decisions of consumers: allocation, rebalance, process queues, flow control, results, ordering, subscriptions."""
