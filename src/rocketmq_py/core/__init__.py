"""The rules by which clients and brokers decide, as functions of state, input and time.

Nothing here does IO, uses asyncio or reads a clock; the current time and random numbers are arguments.
"""
