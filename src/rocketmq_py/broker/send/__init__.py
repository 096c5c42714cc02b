"""The send path: validation, properties, storing, acknowledgement, send-back, replies."""
