"""Talking to brokers and name servers: connections, routes, producer, consumers, admin, and the blocking façade.

asyncio is the source; what blocks is a façade over one event-loop thread. Refuses to know the insides of a broker.
"""
