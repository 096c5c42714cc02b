"""Decisions about transactions: which half messages have not ended, and when to check them with their producers."""
