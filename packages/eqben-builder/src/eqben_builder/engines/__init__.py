"""Engines that draw floor scenes, imported where they are used: each needs its own extra."""
