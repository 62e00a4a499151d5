"""Meta-models: how well a subset of the benchmarks predicts the rest."""
