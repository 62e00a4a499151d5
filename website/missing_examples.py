"""Public names whose docstring has no example: `hatch run test:python website/missing_examples.py` prints them."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from website.public import documented_at


def without_example() -> list[str]:
    """Dotted paths of functions and classes that show no use of themselves, sorted.

    A class counts as shown where one of its methods is.
    """
    missing = []
    for path in sorted(set(documented_at().values())):
        module, name = path.rsplit(".", 1)
        public = inspect.unwrap(getattr(importlib.import_module(module), name))  # a cached function is one too
        if not inspect.isclass(public) and not inspect.isfunction(public):
            continue
        texts = [public.__doc__ or ""]
        if inspect.isclass(public):
            texts += [getattr(value, "__doc__", None) or "" for key, value in vars(public).items() if key[0] != "_"]
        if not any(">>> " in text for text in texts):
            missing.append(path)
    return missing


if __name__ == "__main__":
    print("\n".join(without_example()))
