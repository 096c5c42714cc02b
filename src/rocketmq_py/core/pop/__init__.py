"""Decisions about POP: receipts, messages in flight, order, assignment, long polling."""
