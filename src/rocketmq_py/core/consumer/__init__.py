"""Decisions of consumers: allocation, rebalance, process queues, flow control, settling, order, subscriptions."""
