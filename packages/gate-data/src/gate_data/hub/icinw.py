"""ELEVATER's 20 data sets from the hub: copies with other names and orders of classes, mapped to ELEVATER's by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gate_data.cards.icinw import ICINW, IcinwSheet
from gate_data.data import Data
from gate_data.errors import DataError
from gate_data.hub.fetching import fetched
from gate_data.hub.tables import Table, picture
from gate_data.original_files import Parts, Sample, to_data
from gate_data.originals.icinw.elevater import plain
from gate_data.originals.icinw.form import class_names, form_of, places_by_name
from gate_data.originals.icinw.lists import BANNER
from gate_data.readers import Cut, Member, Row, shuffled
from gate_data.readers.decode import open_picture
from gate_data.request import DataRequest

_ALSO: dict[str, dict[str, str]] = {
    "caltech-101": {
        "airplanes": "airplane",
        "background_google": "background",
        "car_side": "side of a car",
        "cougar_body": "body of a cougar cat",
        "cougar_face": "face of a cougar cat",
        "crocodile_head": "head of a  crocodile",
        "faces": "off-center face",
        "faces_easy": "centered face",
        "flamingo_head": "head of a flamingo",
        "leopards": "leopard",
        "motorbikes": "motorbike",
        "snoopy": "snoopy (cartoon beagle)",
        "yin_yang": "yin and yang symbol",
    },
    "eurosat_clip": {
        "AnnualCrop": "annual crop land",
        "HerbaceousVegetation": "brushland or shrubland",
        "Highway": "highway or road",
        "Industrial": "industrial buildings or commercial buildings",
        "IndustrialBuildings": "industrial buildings or commercial buildings",
        "Pasture": "pasture land",
        "PermanentCrop": "permanent crop land",
        "Residential": "residential buildings or homes or apartments",
        "ResidentialBuildings": "residential buildings or homes or apartments",
        "SeaLake": "lake or sea",
    },
    "fer-2013": {"disgust": "disgusted", "fear": "fearful", "surprise": "surprised"},
    "oxford-flower-102": {"pink-yellow dahlia?": "pink and yellow dahlia", "ball moss": "air plant"},
}
"""What else a class is called: as the data set's own files have it. Caltech's faces are named as CLIP names them."""


def load_icinw(name: str, request: DataRequest) -> Data[Any]:
    """A data set's three splits; validation is drawn from those to train on.

    Args:
        name: of the data set, as ELEVATER has it.
        request: root of copies of repositories, or None for the hub; limit and size.
    """
    sheet = ICINW[name]
    return to_data(icinw_parts(name, request.root), form_of(sheet), request, sheet.hub.id)


def icinw_parts(name: str, root: Path | None) -> Parts:
    """Both splits in the order of the copy's rows, with classes in ELEVATER's order."""
    sheet = ICINW[name]
    copy = fetched(sheet.hub, root, None)
    names = class_names(name)
    lists = {role: _samples(sheet, table, len(names)) for role, table in copy.tables.items()}
    if "validation" in lists:
        train, test = _drawn(sheet, [sample for samples in lists.values() for sample in samples])
    else:
        train, test = lists["train"], lists["test"]
    ours, published = (f"{sample[0]:,} / {sample[1]:,}" for sample in ((len(train), len(test)), sheet.sizes))
    notes = [
        f"from {sheet.hub.id} on the Hugging Face hub" + (f", revision {copy.revision[:12]}" if copy.revision else ""),
        "" if ours == published else f"it holds {ours} pictures to train on and to score, published are {published}",
        sheet.note,
        sheet.unsure,
    ]
    return Parts(train, test, classes=names, note="; ".join(filter(None, notes)))


def places(name: str, theirs: Sequence[str], where: str) -> list[int]:
    """The place in ELEVATER's order of each class of a copy.

    Args:
        name: of the data set.
        theirs: names as the copy has them: ELEVATER's or the original files', in any case, spacing and order.
        where: what an error calls the copy.

    Example:
        >>> places("fer-2013", ["Angry", "disgust", "fear", "happy", "sad", "surprise", "neutral"], "a copy")
        [0, 1, 2, 3, 5, 6, 4]
    """
    index_of = {_key(name_of_class): name_of_class for name_of_class in class_names(name)}
    index_of |= {_key(alias): name_of_class for alias, name_of_class in _ALSO.get(name, {}).items()}
    return places_by_name(name, [index_of.get(_key(name_of_class), name_of_class) for name_of_class in theirs], where)


def _key(name: str) -> str:
    return plain(name).replace(" ", "").strip("?")


def _samples(sheet: IcinwSheet, table: Table, count: int) -> list[Sample]:
    hub = sheet.hub
    names = table.names.get(hub.target) or hub.names
    order: Sequence[int] = places(sheet.id, names, f"{hub.id}: column {hub.target!r}") if names else range(count)
    return [
        Sample(
            _picture(sheet, row), _several(row, hub.target, order) if sheet.several else _one(row, hub.target, order)
        )
        for row in table.rows
    ]


def _one(row: Row, column: str, order: Sequence[int]) -> int:
    return order[row.integer(column, 0, len(order) - 1)]


def _several(row: Row, column: str, order: Sequence[int]) -> tuple[int, ...]:
    """0/1 of each class, from a list of those that are there; one may be in it several times."""
    labels = row.values.get(column)
    if not isinstance(labels, list) or any(type(label) is not int or not 0 <= label < len(order) for label in labels):
        raise row.error(column, f"a list of numbers from 0 to {len(order) - 1}")
    positive = {order[label] for label in labels}
    return tuple(int(index in positive) for index in range(len(order)))


def _picture(sheet: IcinwSheet, row: Row) -> Member | Cut:
    """The picture, of aircraft without the banner at its foot."""
    source = picture(row, sheet.hub.image)
    if not sheet.id.startswith("fgvc-aircraft"):
        return source
    try:
        with open_picture(source) as opened:
            width, height = opened.size
    except (OSError, DataError) as error:
        raise row.error(sheet.hub.image, "a picture") from error
    return Cut(source, (0, 0, width, max(1, height - BANNER)))


def _drawn(sheet: IcinwSheet, samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """As many of each class as in ELEVATER, from all splits of a copy, as from folders of classes."""
    train, test = (size // sheet.classes for size in sheet.sizes)
    of_class: Mapping[int, list[Sample]] = {label: [] for label in range(sheet.classes)}
    for sample in samples:
        of_class[sample.target].append(sample)
    lists: tuple[list[Sample], list[Sample]] = ([], [])
    for label, own in of_class.items():
        if len(own) <= train:
            raise DataError(
                f"{sheet.hub.id}: class {class_names(sheet.id)[label]!r} has {len(own)} pictures, expected more than "
                f"{train}"
            )
        chosen = shuffled(own)
        lists[0].extend(chosen[:train])
        lists[1].extend(chosen[train : train + test])
    return lists
