"""Consumers: code that all kinds share, and one package for each kind (push, lite pull, pull, simple)."""
