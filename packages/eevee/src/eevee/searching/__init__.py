"""Which subsets may be chosen, and the searchers that look for the best."""
