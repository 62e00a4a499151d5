"""Compositional suites as benchmarks: their questions as samples, read from original files or made on the spot."""
