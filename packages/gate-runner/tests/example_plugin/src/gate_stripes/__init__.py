"""An encoder, benchmarks, a task type and an executor for gate-runner, found by their entry points."""
