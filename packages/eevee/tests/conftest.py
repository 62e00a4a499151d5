"""One thread: the tests' matrices are too small for more, and no result depends on it."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
