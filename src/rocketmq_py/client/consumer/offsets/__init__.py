"""Where consumers store the offsets of their groups: at the broker or in a local file."""
