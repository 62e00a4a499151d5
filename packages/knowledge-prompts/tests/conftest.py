from __future__ import annotations

import os
from pathlib import Path

import pytest

from .wordnet_writer import write_wordnet


@pytest.fixture(scope="session")
def tiny_wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wordnet(tmp_path_factory.mktemp("wordnet"))


@pytest.fixture(scope="session")
def shared_knowledge() -> Path:
    """ELEVATER's stored knowledge, where the checkout has it beside it."""
    roots = [Path(value)] if (value := os.environ.get("VLB_SHARED_DATA")) else []
    roots += [parent / "shared" / "data" for parent in Path(__file__).parents]
    for root in roots:
        if (root / "elevater_knowledge").is_dir():
            return root / "elevater_knowledge"
    pytest.skip("ELEVATER's stored knowledge is not beside this checkout")
