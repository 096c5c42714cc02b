"""Consume queues, plain and of batches, and the dispatch of log records to them."""
