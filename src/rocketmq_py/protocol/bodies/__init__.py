"""Declarations of the JSON bodies of requests and responses."""
