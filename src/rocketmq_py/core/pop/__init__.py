"""Decisions about POP: receipts, messages in flight, order, assignment of queues, long polling."""
