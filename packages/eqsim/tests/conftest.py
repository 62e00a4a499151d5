"""One thread: the tests' tensors are too small for more, and the results do not depend on the machine's cores."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
