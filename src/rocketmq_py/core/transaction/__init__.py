"""Decisions about transactions: which half messages are open and when their producers are asked."""
