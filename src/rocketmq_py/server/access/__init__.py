"""Access control of a server: settings, the table of users and permissions, the check of each request."""
