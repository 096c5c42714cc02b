"""Tables of a broker and their files: topics, groups, offsets, filters, request modes, users."""
