"""Distributes the queues of a topic among the members of a group: rebalance, assignments by brokers, queue locks."""
