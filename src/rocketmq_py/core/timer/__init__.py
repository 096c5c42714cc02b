"""Decisions about delayed messages: delay levels, delivery times, and progress of the delivery."""
