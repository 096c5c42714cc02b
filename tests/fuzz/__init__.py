"""Mutated requests for the servers: ``python -m tests.fuzz`` or ``make fuzz``."""
