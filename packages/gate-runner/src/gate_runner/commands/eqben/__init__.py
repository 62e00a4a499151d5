"""``gate-runner eqben``: pairs of images and captions that differ in one thing."""

from gate_runner.commands.eqben.app import app

__all__ = ["app"]
