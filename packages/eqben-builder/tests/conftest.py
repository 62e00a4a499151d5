"""The slow reference, reachable by the tests under whatever import mode pytest runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reference():
    path = Path(__file__).with_name("_reference.py")
    spec = importlib.util.spec_from_file_location("eqben_builder_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
