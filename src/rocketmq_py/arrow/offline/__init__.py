"""A store on disk as the origin of a read, without a broker; nothing is written or locked."""
