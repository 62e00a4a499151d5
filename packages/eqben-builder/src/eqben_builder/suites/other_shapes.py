"""Readers of suites with paraphrases, with wrong pictures, and with statements that are true or false."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from eqben_builder.suites.files import Files, field_of, lines_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eqben_builder.suites.row import SuiteRow

SUGARCREPE_PP = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att")
SPEC = ("existence", "relative_spatial", "absolute_size", "relative_size", "count", "absolute_spatial")
VSR = ("random", "zeroshot")


def sugarcrepe_pp(files: Files) -> Iterator[SuiteRow]:
    """SugarCrepe++'s `data/SUBSET.json`: two right captions and a wrong one."""
    for subset in SUGARCREPE_PP:
        for where, _, row in files.json(f"data/{subset}.json", f"{subset}.json", kind=list):
            name = text_of(row, "filename", where)
            captions = [text_of(row, name_, where) for name_ in ("caption", "caption2", "negative_caption")]
            picture = files.picture(f"val2017/{name}", name, f"images/{name}")
            key = field_of(row, "id", where)
            yield from files.row(f"{subset}/{key}", subset, "paraphrases", [picture], captions, name)


def spec(files: Files) -> Iterator[SuiteRow]:
    """SPEC's `SUBSET/image2text.json` and `text2image.json`: a query, its keys, and the right key's index."""
    for subset in SPEC:
        for direction in ("image2text", "text2image"):
            name = f"{subset}/{direction}.json"
            for where, number, row in files.json(name, f"data/{name}", kind=list):
                query, keys, label = (field_of(row, key, where) for key in ("query", "keys", "label"))
                if not isinstance(keys, list) or not isinstance(label, int) or not 0 <= label < len(keys):
                    raise ValueError(f"{where}: field 'label' is {label!r}, expected an index into 'keys'")
                ordered = [keys[label], *(key for k, key in enumerate(keys) if k != label)]
                forms = (f"{subset}/{{}}", f"data/{subset}/{{}}")
                base = f"{direction.replace('2', ' to ')}/{subset}"
                if direction == "image2text":
                    pictures = [files.picture(*(form.format(query) for form in forms))]
                    row_ = files.row(f"{name}/{number}", base, "captions", pictures, ordered, str(query))
                else:
                    pictures = [files.picture(*(form.format(key) for form in forms)) for key in ordered]
                    row_ = files.row(f"{name}/{number}", base, "images", pictures, [query], str(ordered[0]))
                yield from row_


def svo(files: Files) -> Iterator[SuiteRow]:
    """SVO-Probes' `svo_probes.csv`: a sentence, its picture and one where subject, verb or object differs.

    Pictures are links: those that were fetched lie in `images/`, named by their id.
    """
    path = files.find("svo_probes.csv", "data/svo_probes.csv")
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file)):
            where = f"{path}, line {number + 2}"
            sentence = text_of(row, "sentence", where)
            names = [text_of(row, f"{side}_image_id", where) for side in ("pos", "neg")]
            pictures = [files.picture(f"images/{n}.jpg", f"images/{n}.png", f"images/{n}") for n in names]
            for kind in ("subj", "verb", "obj"):
                if text_of(row, f"{kind}_neg", where).strip().lower() == "true":
                    yield from files.row(f"{number}/{kind}", kind, "images", pictures, [sentence], names[0])


def vsr(files: Files) -> Iterator[SuiteRow]:
    """VSR's `data/splits/SPLIT/test.jsonl`: a picture, a caption, and whether it is true; the folder is the link's."""
    for split in VSR:
        path = files.find(f"data/splits/{split}/test.jsonl", f"splits/{split}/test.jsonl", f"{split}/test.jsonl")
        for number, (where, row) in enumerate(lines_of(path)):
            name, caption = text_of(row, "image", where), text_of(row, "caption", where)
            label = field_of(row, "label", where)
            if label not in (0, 1):
                raise ValueError(f"{where}: field 'label' is {label!r}, expected 0 or 1")
            folder = "train2017" if "train2017" in str(row.get("image_link", "")) else "val2017"
            other = "val2017" if folder == "train2017" else "train2017"
            picture = files.picture(f"{folder}/{name}", f"{other}/{name}", f"images/{name}")
            subset = str(row.get("relation") or "")
            yield from files.row(
                f"{split}/{number}", split, "statement", [picture], [caption], name, group=subset, label=bool(label)
            )
