"""The demo: a year of real departures from New York through a broker, a push consumer and Spark."""
