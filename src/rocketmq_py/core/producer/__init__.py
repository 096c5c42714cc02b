"""Decisions of producers: encoding messages, choosing queues, retries, avoiding slow brokers, awaiting replies."""
