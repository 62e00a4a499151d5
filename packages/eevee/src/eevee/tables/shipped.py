"""The tables that come with the package."""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import TYPE_CHECKING

from eevee.errors import EeveeError
from eevee.tables.reading import read_csv_text

if TYPE_CHECKING:
    from eevee.tables.table import ResultTable

SHIPPED = {"gate": "gate_main.csv", "gate-full": "gate_full.csv", "mieb": "mieb.csv.gz"}


def load_shipped(name: str) -> ResultTable:
    """Read a shipped table: `gate` and `gate-full` (see `load_gate`), or `mieb`.

    `mieb`: 42 embedding models on the 132 image tasks of MIEB, one headline metric each, shares of one; the cost of a
    task is the median of the models' seconds on it. Families of models are ours, by who trained what on which data.

    Raises:
        EeveeError: another name.

    Example:
        >>> table = load_shipped("mieb")
        >>> table.shape, round(sum(table.costs.values()) / 3600)
        ((42, 132), 30)

    Source: the results repository of the Massive Text Embedding Benchmark (embeddings-benchmark/results at f4cc6c8,
    CC0); task types from embeddings-benchmark/mteb. For `gate` and `gate-full` see `load_gate`.
    """
    if name not in SHIPPED:
        raise EeveeError(f"unknown shipped table {name!r}; expected one of {', '.join(SHIPPED)}")
    data = files("eevee.tables").joinpath("data")
    raw = data.joinpath(SHIPPED[name]).read_bytes()
    text = (gzip.decompress(raw) if SHIPPED[name].endswith(".gz") else raw).decode("utf-8")
    models = data.joinpath("mieb_models.csv").read_text(encoding="utf-8") if name == "mieb" else None
    return read_csv_text(text, name=name, models=models)


def load_gate(name: str = "gate") -> ResultTable:
    """Read a table of the GATE paper: `gate` (30 headline metrics) or `gate-full` (175 metrics, table 3).

    Example:
        >>> load_gate().shape
        (21, 30)

    Source: table 3 of the EEVEE/GATE paper, 21 models. The headline metrics are its table 2, where iWildCam's error and
    ACDC's dice are rescaled so that higher is better; Cityscapes is only in the full table, as in the paper's figure 3.
    """
    if not name.startswith("gate"):
        raise EeveeError(f"unknown table of the paper {name!r}; expected gate or gate-full")
    return load_shipped(name)
