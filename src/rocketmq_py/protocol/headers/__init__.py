"""Declarations of request and response headers, one class per header."""
