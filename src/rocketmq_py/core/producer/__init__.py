"""Decisions of producers: encoding a message, choosing a queue, retrying, avoiding slow brokers, awaiting replies."""
