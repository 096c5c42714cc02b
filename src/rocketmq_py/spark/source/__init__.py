"""The batch and streaming readers: partitions of a read, offsets of micro-batches, consumer groups."""
