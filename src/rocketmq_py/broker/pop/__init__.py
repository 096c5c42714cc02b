"""The POP path: pops, acks, invisibility, revival, long polling."""
