"""The chaos kit: clusters of processes under load, injected failures, and an audit of the results."""
