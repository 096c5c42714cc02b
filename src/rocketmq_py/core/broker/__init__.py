"""Decisions of brokers: held pulls, queue locks, connected clients, replication, statistics, overload."""
