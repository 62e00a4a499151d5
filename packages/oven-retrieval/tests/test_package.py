"""What is imported when, and what is said where an extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "jaxtyping", "transformers", "numba", "faiss")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)


def test_linking_names_imports_nothing_heavy():
    code = f"import sys, oven_retrieval; print([m for m in {HEAVY} if m in sys.modules])"
    assert run(code).stdout.strip() == "[]"
    broken = run(
        f"import json as torch, sys; sys.modules['torch'] = torch; print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert broken.stdout.strip() == "['torch']"


def test_without_torch_the_error_names_the_extra():
    hidden = run("import sys; sys.modules['torch'] = None; from oven_retrieval.models import ClipFusion")
    assert hidden.returncode == 1
    assert "ClipFusion needs torch: pip install 'oven-retrieval[torch]'" in hidden.stderr
    here = run("import sys; sys.modules['torch'] = None; from oven_retrieval.models import Clip2Clip; print(Clip2Clip)")
    assert "Clip2Clip" in here.stdout


def test_names_that_do_not_exist():
    import oven_retrieval.models

    with pytest.raises(AttributeError, match="has no attribute 'Blip'"):
        oven_retrieval.models.Blip  # noqa: B018
    for name in oven_retrieval.__all__:
        assert hasattr(oven_retrieval, name)


def test_a_ranking_unpacks():
    from oven_retrieval import KnowledgeBase, build_linker

    links = build_linker(KnowledgeBase.from_names(["Duck", "Goose"])).link(["duck", "?"])
    rows, scores = links
    assert rows is links.rows
    assert scores is links.scores
