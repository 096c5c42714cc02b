"""Hooks that run before and after sending and consuming: base classes for applications, and message traces."""
