"""Stand-ins for GATE's small tier, made on the spot from seeds: synthetic, and never called by the real name alone."""
