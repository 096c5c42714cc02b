"""The batch and streaming readers: planning of partitions, reading, starting positions, corrupt records."""
