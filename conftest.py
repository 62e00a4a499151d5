"""What every test process has: one compute thread, and no limit on the time that one of Hypothesis's examples takes."""

import os

from hypothesis import settings

# Two processes with two threads each on two cores wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The time of one example says how busy the machine is; pytest's own limit ends what hangs.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
