"""The machine that a run is on: what it has, how busy it is, what it uses."""
