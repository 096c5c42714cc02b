"""JSON bodies of requests and responses, one class per body."""
