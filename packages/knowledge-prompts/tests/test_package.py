from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

import knowledge_prompts


def test_public_names_are_there_and_no_module_hides_one():
    for module in pkgutil.walk_packages(knowledge_prompts.__path__, "knowledge_prompts."):
        if module.name != "knowledge_prompts.cli" or find_spec("typer") is not None:  # of the extra cli
            import_module(module.name)
    for name in knowledge_prompts.__all__:
        value = getattr(knowledge_prompts, name)
        assert not isinstance(value, ModuleType), name
        assert name == "__version__" or value.__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="attribute nothing"):
        knowledge_prompts.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("use", "absent"),
    [
        ("import knowledge_prompts as k; [getattr(k, name) for name in k.__all__]", "torch transformers nltk"),
        ("from knowledge_prompts import WordNet, show_prompts", "numpy torch"),
    ],
)
def test_imports_stay_light(use, absent):
    code = f"import sys\n{use}\nsys.exit(any(name in sys.modules for name in {absent.split()!r}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_light_import_test_can_fail():
    code = "import sys, numpy\nsys.exit(any(name in sys.modules for name in ['numpy']))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1


def test_records_that_hold_arrays_can_be_compared_and_put_into_sets():
    prompts = knowledge_prompts.build_prompts(knowledge_prompts.ClassPrompts("own", ["{}"], ["owl", "hen"]))
    classes = ["owl", "hen"]

    def encode(texts):
        return [[1.0, 0.0]] * len(texts)

    for make in (
        lambda: knowledge_prompts.coverage(classes, [knowledge_prompts.RandomWords()]),
        lambda: knowledge_prompts.class_embeddings(encode, prompts),
        lambda: knowledge_prompts.concept_map({"a": [[1.0, 0.0], [0.0, 1.0]]}),
    ):
        first, second = make(), make()
        assert first == first  # the comparison is what is tested
        assert first != second
        assert len({first, second}) == 2
