"""The index from message keys to offsets in the commit log."""
