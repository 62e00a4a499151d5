"""``gate-runner oven``: link names, images and questions to the entities of a knowledge base."""

from gate_runner.commands.oven.app import app

__all__ = ["app"]
