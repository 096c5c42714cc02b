"""The batch and streaming sink: rows to messages, sending, exactly once."""
