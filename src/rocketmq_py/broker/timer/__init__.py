"""Delivery at a later time: delay levels and timer messages."""
