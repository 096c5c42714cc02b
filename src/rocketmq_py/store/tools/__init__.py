"""Offline tools: inspection and verification of a store directory."""
