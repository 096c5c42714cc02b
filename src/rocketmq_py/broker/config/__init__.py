"""Settings of a broker: the keys of broker.conf, their Java defaults, and changes at run time."""
