"""Replication between master and slaves, and the role of this broker."""
