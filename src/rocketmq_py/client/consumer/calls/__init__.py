"""Pull and POP requests of consumers: sends them and decodes the answers."""
