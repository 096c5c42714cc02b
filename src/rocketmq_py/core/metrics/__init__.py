"""Metrics: what is counted, and the text that Prometheus reads."""
