"""The chaos kit: clusters of processes under load, injected failures, and a judge of what came of them."""
