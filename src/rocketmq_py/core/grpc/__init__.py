"""Decisions about calls of gRPC: what is accepted, where it goes, how long it waits."""
