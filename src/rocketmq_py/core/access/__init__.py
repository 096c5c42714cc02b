"""Decisions about access: users, permissions, what each request requires."""
