"""The batch and streaming source: planning, reading, positions, corrupt records."""
