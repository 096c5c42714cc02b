"""Decisions about POP: receipts, messages in flight, orderly pops, assignment, long polling."""
