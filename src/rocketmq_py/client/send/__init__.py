"""Sends messages to brokers, with retries and back pressure. Used by producers, message traces and consumers."""
