"""Delivery of messages to listeners: concurrent and orderly dispatchers, listeners, worker pools."""
