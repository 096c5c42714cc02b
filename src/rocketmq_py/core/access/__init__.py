"""Access control: users, permissions, and what each request requires."""
