"""Pull and POP requests of consumers."""
