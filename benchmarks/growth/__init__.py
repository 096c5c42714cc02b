"""What grows, and whom it makes wait: a broker with many topics, groups and members beside one steady producer."""
