"""Producers: plain and transactional, asyncio and blocking."""
