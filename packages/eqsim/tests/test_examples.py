"""The examples run as they are, and what they train gets better."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"eqsim_example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other libraries say about themselves when they are imported
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("open_clip_step", "open_clip"),
        ("hugging_face_trainer", "accelerate"),
        ("lightning_module", "lightning"),
        ("sentence_transformers_style", "torch"),
    ],
)
def test_training_with_another_library(name: str, needed: str) -> None:
    pytest.importorskip(needed, exc_type=ImportError)
    if name == "hugging_face_trainer":
        pytest.importorskip("transformers")
    module = load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = module.main()
    assert len(history) >= 4
    assert history[-1] < history[0]


def test_a_batch_in_pieces_has_the_gradients_of_the_whole() -> None:
    assert load("large_batches_in_pieces").main() < 1e-12


def test_a_matching_head_learns_from_kept_pair_scores() -> None:
    """METER's way: untrained it finds almost no caption of 192, trained nearly all."""
    done = load("matching_head").main()
    assert done["before"] < 0.1
    assert done["after"] > 0.8
    assert 0 < done["equivariance"] < 1
    assert done["hard"] == 0.5  # half of each batch is drawn from the stored scores
