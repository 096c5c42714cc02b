"""Transactional messages: half messages, commit and rollback, checks and recovery."""
