"""The client: connections to brokers and name servers, routes, producers, consumers and admin.

Everything is written for asyncio; the blocking classes call the asyncio ones in one event-loop thread. The client does
not import the broker's code.
"""
