"""Consumers: what all of them share, and one package for each kind."""
