"""Version of the distribution."""

__version__ = "0.2.0"
