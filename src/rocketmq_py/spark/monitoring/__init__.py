"""Progress of queries: listeners, metrics, terminal output, reports."""
