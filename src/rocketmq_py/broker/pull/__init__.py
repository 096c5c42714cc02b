"""The pull path: pulls, and pull requests that are held until messages arrive."""
