"""Replication of the commit log between master and slaves."""
