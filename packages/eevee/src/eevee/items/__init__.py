"""Which few items of a benchmark tell its score."""
