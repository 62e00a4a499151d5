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
"""


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import vision_adapters

    for name in vision_adapters.__all__:
        assert getattr(vision_adapters, name) is not None
    assert set(vision_adapters.__all__) <= set(dir(vision_adapters))
    assert vision_adapters.fit.__module__ == "vision_adapters.training.fit"
