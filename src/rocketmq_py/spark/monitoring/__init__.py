"""Monitoring of Spark queries: progress listeners, metrics, terminal output, HTML reports."""
