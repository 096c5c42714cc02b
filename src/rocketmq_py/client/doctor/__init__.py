"""Checks whether a cluster can be used: what servers are asked, and what follows from their answers."""
