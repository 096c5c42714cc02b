"""The index from message keys to places in the commit log."""
