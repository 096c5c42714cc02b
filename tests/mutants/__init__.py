"""Random faults in the code, tried on the tests that run it: which lines can be wrong without a test that fails."""
