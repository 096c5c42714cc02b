"""What the requests of RocketMQ say: codes, headers, bodies, flags and names.

Knows one declaration per header and body. Refuses to know how they travel and what is done about them.
"""
