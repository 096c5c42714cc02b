"""Short Spark programs on a year of flights, to be read from top to bottom; README.md says what each shows."""
