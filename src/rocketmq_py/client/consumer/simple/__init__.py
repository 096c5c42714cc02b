"""The simple consumer (POP), asyncio and blocking."""
