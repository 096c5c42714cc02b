"""The lite pull consumer, asyncio and blocking."""
