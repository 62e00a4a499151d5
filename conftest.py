"""One compute thread per test process: two processes with two threads each on two cores wait for one another."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
