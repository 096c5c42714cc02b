"""Stored messages: their properties, and the parts of a record."""
