"""The FileSystem interface between the store and the operating system, and the directory layout of a store."""
