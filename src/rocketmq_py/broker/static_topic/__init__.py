"""Static topics: mappings of logical to physical queues, and requests translated by them."""
