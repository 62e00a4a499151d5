"""What the runner and the package of data say of the same data set."""

from __future__ import annotations

import pytest

from gate_data.cards import ICINW
from gate_data.originals.icinw.elevater import class_names
from gate_data.originals_by_name import ORIGINALS, PACKAGED
from gate_runner.benchmarks import BENCHMARKS
from knowledge_prompts import load_class_prompts


def test_every_data_set_is_a_benchmark_and_read_by_the_same_reader() -> None:
    readers = {**ORIGINALS, **PACKAGED}
    assert set(readers) <= set(BENCHMARKS)
    for name, reader in readers.items():
        assert reader in BENCHMARKS[name].sources.values()


@pytest.mark.parametrize("name", ICINW)
def test_classes_are_those_that_the_prompts_have(name: str) -> None:
    """In ELEVATER's order; of CIFAR-100 the prompts are in the order of the data set's own files."""
    prompts = load_class_prompts(name).classes
    if name == "cifar-100":
        assert sorted(class_names(name)) == sorted(prompts)
    else:
        assert list(class_names(name)) == list(prompts)
