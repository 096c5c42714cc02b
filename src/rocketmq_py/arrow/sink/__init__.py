"""Encode rows and record batches as messages, and send them."""
