"""Fast packing and unpacking of many records, entries and property fields."""
