"""An encoder, a benchmark and an executor for gate-runner, found by their entry points."""
