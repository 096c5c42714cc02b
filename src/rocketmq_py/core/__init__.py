"""Decisions as functions of (state, input, now).

The rules of clients and brokers, without IO, asyncio, clocks and randomness: these are passed in.
"""
