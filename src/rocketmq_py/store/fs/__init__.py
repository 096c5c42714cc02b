"""The FileSystem seam between the store and the operating system, and the layout of a store's directory."""
