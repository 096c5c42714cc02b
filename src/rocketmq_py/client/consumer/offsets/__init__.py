"""Stores of consume offsets: at the broker (clustering) or in a local file (broadcasting)."""
