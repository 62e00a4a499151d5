from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import vision_adapters
assert "torch" not in sys.modules
import vision_adapters.finetune, vision_adapters.stems
import vision_adapters.training, vision_adapters.tuning
print([name for name in ("sklearn", "transformers", "peft", "PIL", "pandas") if name in sys.modules])

import torch
from vision_adapters.losses import cross_entropy
from vision_adapters.training import Recipe, fit
from vision_adapters.tuning.projection import fit_projection

x, y = torch.randn(8, 3), torch.tensor([0, 1] * 4)
fit_projection(x, y, torch.randn(3, 2), torch.randn(2, 2), steps=2)
for optimiser in ("sgd", "adamw"):
    recipe = Recipe(lr=0.01, steps=4, batch_size=4, validate_every=2, optimiser=optimiser)
    model, how = torch.nn.Linear(3, 2), {"validate": lambda module: 1.0, "direction": "lower", "seed": 0}
    fit(model, (x,), y, loss=cross_entropy, recipe=recipe, **how)
print("torch._dynamo" in sys.modules)
"""


def test_nothing_heavy_is_imported_before_it_is_used_nor_torchs_compiler_by_a_training() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.splitlines() == ["[]", "False"]


def test_every_public_name_is_there() -> None:
    import vision_adapters

    for name in vision_adapters.__all__:
        assert getattr(vision_adapters, name) is not None
    assert set(vision_adapters.__all__) <= set(dir(vision_adapters))
    assert vision_adapters.fit.__module__ == "vision_adapters.training.fit"
