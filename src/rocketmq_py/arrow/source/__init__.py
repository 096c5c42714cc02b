"""Which ranges of queues a read covers, how they are read into record batches, and what happens to bad messages."""
