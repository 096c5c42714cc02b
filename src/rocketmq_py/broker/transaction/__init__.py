"""Transactional messages: half messages, their end, checks and recovery."""
