"""The JSON files below ``config/``, and the journal beside them."""
