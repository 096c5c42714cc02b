"""Decisions as functions of (state, input, now).

Knows the rules of clients and brokers. Refuses to know IO, asyncio, clocks and randomness: all of them are passed in.
"""
