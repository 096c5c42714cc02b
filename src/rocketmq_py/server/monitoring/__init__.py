"""The HTTP endpoint of a server: health for supervisors, metrics for Prometheus."""
