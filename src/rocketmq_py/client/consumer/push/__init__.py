"""The push consumer: pull and POP strategies, asyncio and blocking."""
