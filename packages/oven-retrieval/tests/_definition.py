"""rank_bm25, the definition's engine: an extra, without which only the tests of it are skipped."""

from functools import partial
from importlib.util import find_spec

import pytest

from oven_retrieval import build_linker

RANK_BM25 = find_spec("rank_bm25") is not None
needs_rank_bm25 = pytest.mark.skipif(not RANK_BM25, reason="needs rank_bm25: pip install 'oven-retrieval[definition]'")
LINKERS = [build_linker, pytest.param(partial(build_linker, engine="rank_bm25"), marks=needs_rank_bm25)]
"""Of our engine and of the definition's."""
