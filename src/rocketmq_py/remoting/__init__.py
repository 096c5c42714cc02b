"""Transports of the remoting protocol over ``core.peer``: asyncio and blocking connections and their pools."""
