"""The pull consumer, asyncio and blocking. Deprecated in favour of the lite pull consumer."""
