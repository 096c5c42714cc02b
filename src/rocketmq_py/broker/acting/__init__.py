"""What a slave does while it acts for a master that is away."""
