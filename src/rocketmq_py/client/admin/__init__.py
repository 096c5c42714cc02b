"""Administration of brokers, topics, groups, messages, transactions and users, asyncio and blocking."""
