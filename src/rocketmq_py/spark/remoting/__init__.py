"""Access to brokers from Spark's planners and tasks: connections, routes, pulls, retries."""
