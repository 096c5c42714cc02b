"""The batch and streaming sink: encodes rows as messages and sends them, at least once or exactly once."""
