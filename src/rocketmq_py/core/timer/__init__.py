"""Decisions about delayed messages: delay levels, delivery times, delivery progress."""
