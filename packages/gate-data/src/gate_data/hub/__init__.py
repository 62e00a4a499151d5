"""Benchmarks read through Hugging Face `datasets`: one reader, and for each data set which columns mean what."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gate_data.cards import ICINW, SHEETS, Hub, Sheet
from gate_data.data import Data
from gate_data.errors import DataError
from gate_data.hub.fetching import Copy, fetched
from gate_data.imports import named
from gate_data.original_files import Form, Parts, counted, to_data, with_note
from gate_data.request import DataRequest


def check(name: str, root: Path | None) -> None:
    """Whether a data set can be asked for at all: `datasets` is installed, and its copy lies under the data root."""
    hub = _hub(name)
    if find_spec("datasets") is None:
        raise DataError(f"the source 'hub' reads {hub.id} through datasets: pip install 'gate-data[hub]'")
    if root is not None and not (root / hub.id).is_dir():
        raise DataError(
            f"{root / hub.id} is not there: with a data root, the source 'hub' reads copies of the hub's repositories, "
            f"as `hf download --repo-type dataset {hub.id} --local-dir {root / hub.id}` makes them"
        )


def load(name: str, request: DataRequest) -> Data[Any]:
    """A data set's three splits from the hub, or from a copy of its repository under the data root.

    What is read is kept under the user's cache folder, and read from there the next time, without the network. Of a
    large set (``Hub.streamed``) no more rows than the limit are read.
    """
    check(name, request.root)
    if name in ICINW:
        from gate_data.hub.icinw import load_icinw

        return load_icinw(name, request)
    sheet, hub = SHEETS[name], _hub(name)
    take = request.limit if hub.streamed else None
    copy = fetched(hub, request.root, take)
    few_shot = sheet.task == "few-shot"
    rows = named(hub.rows or f"gate_data.hub.tables:{'classes_apart' if few_shot else 'classes'}")
    parts: Parts = rows(copy.tables, hub, sheet.classes)
    if take is not None and parts.validation is None:
        parts = replace(parts, train=parts.train[:take], validation=parts.train[take:])
    parts = with_note(parts, _note_of(sheet, hub, copy, parts, take))
    # as for the original files; maps are images here, and what no row tells apart cannot be grouped
    form: Form = named(sheet.local).form
    grouped = form.grouped and all(sample.group for sample in parts.train)
    maps = None if form.maps is None else replace(form.maps, key="")
    return to_data(parts, replace(form, few_shot=few_shot, grouped=grouped, maps=maps), request, hub.id)


def _hub(name: str) -> Hub:
    hub = ICINW[name].hub if name in ICINW else SHEETS[name].hub
    assert hub is not None, name
    return hub


def _note_of(sheet: Sheet, hub: Hub, copy: Copy, parts: Parts, take: int | None) -> str:
    note = f"from {hub.id} on the Hugging Face hub" + (f", revision {copy.revision[:12]}" if copy.revision else "")
    if take is not None:
        return f"{note}; the first rows in a drawn order"
    differs = sheet.differs(*counted(parts))
    return f"{note}; it holds {differs}" if differs else note
