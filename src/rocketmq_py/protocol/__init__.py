"""Request and response codes, headers, bodies, flags and names of RocketMQ, one declaration per header and body."""
