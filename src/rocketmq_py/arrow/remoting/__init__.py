"""Access to name servers and brokers from Spark's planners and tasks: connections, routes, pulls, retries."""
