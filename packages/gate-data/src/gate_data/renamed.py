"""Keywords and modules of the last release that go on working for one more, with a warning that says the new one."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def renamed_keywords(**new_names: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a function take its keywords of the last release: old name -> new name."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(function)
        def accepting(*args: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            for old, new in new_names.items():
                if old in keywords and new not in keywords:
                    message = f"{function.__name__}({old}=) is called {new}= now, and goes with the next release"
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    keywords[new] = keywords.pop(old)
            return function(*args, **keywords)

        return accepting

    return decorate


_READERS = {
    "classification": ("cifar100", "food101", "happy", "imagenet1k", "places365"),
    "few_shot": ("aircraft", "cubirds", "dtextures", "fungi", "mini", "vgg"),
    "segmentation": ("ade20k", "cityscapes", "coco_stuff", "nyu", "pascal"),
    "medical": ("acdc", "chestxray14", "chexpert", "diabetic", "ham10k"),
    "language": ("clevr", "clevr_math", "flickr30k", "nycc", "winoground"),
    "video": ("hmdb51", "iwildcam", "kinetics", "ucf"),
}
MOVED = {
    "gate_data.cards.icinw": "gate_data.cards",
    "gate_data.cards.sheet": "gate_data.cards",
    "gate_data.omniglot": "gate_data.originals.few_shot",
    "gate_data.originals.icinw.form": "gate_data.originals.icinw.elevater",
    "gate_data.readers.boxes": "gate_data.boxes.files",
    **{f"gate_data.originals.{name}": f"gate_data.originals.{group}" for group in _READERS for name in _READERS[group]},
}
"""Modules that were merged into others; their ``ORIGINALS`` are called as the data set is."""


class _Merged(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """The place of a module that was merged, or None."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the old module the names of the new one."""
        old, new = module.__name__, MOVED[module.__name__]
        warnings.warn(f"{old} is {new} now, and goes with the next release", DeprecationWarning, stacklevel=2)
        names: dict[str, Any] = {name: value for name, value in vars(import_module(new)).items() if name[:2] != "__"}
        vars(module).update(names, ORIGINALS=names.get(old.rpartition(".")[2]))


def find_merged_modules() -> None:
    """Let merged modules be imported by their old names."""
    sys.meta_path.append(_Merged())
