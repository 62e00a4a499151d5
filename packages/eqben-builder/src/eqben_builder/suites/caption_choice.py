"""Readers of suites with one image, its caption and wrong captions."""

from __future__ import annotations

import ast
import hashlib
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from eqben_builder.suites.files import Files, column_picture, csv_rows, field_of, tables_of, text_of, whole_number
from eqben_builder.untrusted import text_of_file
from wary_files.text import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eqben_builder.suites.files import ColumnPicture, SuiteRow

SUGARCREPE = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")
ARO = ("vg_relation", "vg_attribution", "coco_order", "flickr30k_order")
VALSE = {
    "existence": "existence", "plurals": "plurals", "counting-hard": "counting_hard",
    "counting-small-quant": "counting_small_quant", "counting-adversarial": "counting_adversarial",
    "relations": "relations", "action-replacement": "action_replacement", "actant-swap": "actant_swap",
    "coreference-standard": "coreference_standard", "coreference-hard": "coreference_hard", "foil-it": "foil_it",
}  # fmt: skip
WHATSUP = {
    "a": "controlled_images_dataset.json", "b": "controlled_clevr_dataset.json", "coco_one": "coco_qa_one_obj.json",
    "coco_two": "coco_qa_two_obj.json", "vg_one": "vg_qa_one_obj.json", "vg_two": "vg_qa_two_obj.json",
}  # fmt: skip
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NEGBENCH = {
    "coco": "COCO_val_mcq_llama3.1_rephrased.csv",
    "voc2007": "VOC2007_mcq_llama3.1_rephrased.csv",
    "synthetic": "synthetic_mcq_llama3.1_rephrased.csv",
}
_CHOICES = 4
_NEGBENCH_FOLDERS = {
    "coco": ("val2017",),
    "voc2007": ("JPEGImages", "VOC2007/JPEGImages", "VOCdevkit/VOC2007/JPEGImages"),
    "synthetic": ("images", "synthetic"),
}
#: VALSE scores rows that at least so many of three annotators found right.
VALSE_VOTES = 2
#: The official scorer reads no further in a file of VL-CheckList.
CHECKLIST_ROWS = 1000
#: Most common roots of Visual Genome's images.
_GENOME = ("{}", "VG_100K/{}", "VG_100K_2/{}", "images/{}", "vg/VG_100K/{}", "vg/VG_100K_2/{}")


def sugarcrepe(files: Files) -> Iterator[SuiteRow]:
    """SugarCrepe's `data/SUBSET.json`: objects by key, with filename, caption and negative_caption."""
    for subset in SUGARCREPE:
        for where, key, row in files.json(f"data/{subset}.json", f"{subset}.json", kind=dict):
            name = text_of(row, "filename", where)
            captions = [text_of(row, name_, where) for name_ in ("caption", "negative_caption")]
            yield from files.row(f"{subset}/{key}", subset, "captions", [_coco(files, name)], captions, name)


@lru_cache(maxsize=1)
def symmetric_relations() -> frozenset[str]:
    """The relations that ARO's authors leave out of VG-Relation's average, since swapping changes little.

    Source:
        The notebook of mertyg/vision-language-models-are-bows at 42dbb5e, "Replicate ARO! VG-Relation, VG-Attribution".
    """
    text = resources.files("eqben_builder.suites").joinpath("aro_symmetric.txt").read_text("utf-8")
    return frozenset(filter(None, text.split("\n")))


def aro(files: Files) -> Iterator[SuiteRow]:
    """ARO's two Visual Genome files, and the two orders in a stored draw or in MTEB's frozen parquet."""
    for subset, name, grouped in (
        ("vg_relation", "visual_genome_relation.json", "relation_name"),
        ("vg_attribution", "visual_genome_attribution.json", "attributes"),
    ):
        for where, number, row in files.json(name, f"data/{name}", kind=list):
            path = text_of(row, "image_path", where)
            box = [field_of(row, f"bbox_{side}", where) for side in "xywh"]
            captions = [text_of(row, name_, where) for name_ in ("true_caption", "false_caption")]
            names = field_of(row, grouped, where)
            group = "_".join(map(str, names)) if isinstance(names, list) else str(names)
            picture = files.picture(*(form.format(path) for form in _GENOME), box=box)
            yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, path, group=group)
    for subset in ARO[2:]:
        yield from _order(files, subset)


#: Folders in which MTEB's frozen draws of ARO's shuffled captions are looked for, by subset.
FROZEN = {
    "coco_order": ("coco_order", "ARO-COCO-order"),
    "flickr30k_order": ("flickr30k_order", "ARO-Flickr-order"),
}


def _order(files: Files, subset: str) -> Iterator[SuiteRow]:
    """A stored draw, `[{"image": "val2014/…jpg", "captions": [true, four shuffled ones]}]`, or MTEB's parquet files."""
    if files.has(f"{subset}.json", f"data/{subset}.json"):
        yield from _stored_order(files, subset)
        return
    for folder in FROZEN[subset]:
        if (files.own / folder).is_dir():
            yield from _frozen_order(files, files.own / folder, subset)
            return
    files.notes.append(
        f"{subset}: left out: its captions are shuffled when ARO is run and not published; lay "
        f"mteb/{FROZEN[subset][1]}'s parquet files into {FROZEN[subset][1]}/, or store a draw as {subset}.json"
    )


def _stored_order(files: Files, subset: str) -> Iterator[SuiteRow]:
    for where, number, row in files.json(f"{subset}.json", f"data/{subset}.json", kind=list):
        path = text_of(row, "image", where)
        captions = field_of(row, "captions", where)
        if (
            not isinstance(captions, list)
            or len(captions) < 2
            or not all(isinstance(caption, str) for caption in captions)
        ):
            raise ValueError(f"{where}: field 'captions' should be a list of texts, the true one first")
        base = PurePosixPath(path).name
        picture = files.picture(path, f"val2014/{base}", f"flickr30k-images/{base}")
        yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, path)


def _frozen_order(files: Files, folder: Path, subset: str) -> Iterator[SuiteRow]:
    """MTEB's draw: five rows hold the same image, which is told by its bytes."""
    drawn: dict[bytes, ColumnPicture] = {}
    number = 0
    for path, table in tables_of(folder, "*.parquet"):
        names = ["correct_caption", *(f"hard_text_{k}" for k in range(1, 5))]
        absent = [name for name in names if name not in table.column_names]
        if absent:
            raise ValueError(f"{path}: no column {absent[0]!r}; there are {', '.join(table.column_names)}")
        texts = [table.column(name).to_pylist() for name in names]
        for row, captions in enumerate(zip(*texts, strict=True)):
            own = column_picture(table, "images", row, path)
            key = hashlib.blake2b(own.read(), digest_size=16).digest()
            picture = drawn.setdefault(key, own)
            yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, key.hex())
            number += 1


def crepe(files: Files) -> Iterator[SuiteRow]:
    """CREPE's CSV files in their zips or unpacked; crops of Visual Genome, negatives as a Python list in a text."""
    files_read = 0
    for name, rows in files.tables("*vg_hard_negs_*.csv"):
        if name.endswith("_all.csv"):
            continue
        files_read += 1
        stem = name.removesuffix(".csv")
        for number, row in enumerate(rows):
            where = f"{name}, line {number + 2}"
            columns = {"hard_negs": stem} | {f"valid_hard_negs_{kind}": f"{stem}/{kind}" for kind in _KINDS}
            for column, subset in columns.items():
                if row.get(column):
                    yield from _crepe_row(files, row, column, _crepe_name(subset), number, where)
    if not files_read:
        raise FileNotFoundError(f"{files.own} holds no *vg_hard_negs_*.csv, unpacked or in a zip file")


_KINDS = ("atom", "comp", "combined")


def _crepe_name(stem: str) -> str:
    """As "prod/atom/4" or "syst/unseen/laion/comp"."""
    productive = re.fullmatch(r"prod_vg_hard_negs_(\w+)_complexity_(\d+)", stem)
    if productive:
        return f"prod/{productive[1]}/{productive[2]}"
    systematic = re.fullmatch(r"syst_vg_hard_negs_(seen|unseen)_compounds_in_(\w+)/(\w+)", stem)
    return f"syst/{systematic[1]}/{systematic[2]}/{systematic[3]}" if systematic else stem


def _crepe_row(
    files: Files, row: dict[str, str], column: str, subset: str, number: int, where: str
) -> Iterator[SuiteRow]:
    missing = [name for name in ("image_id", "caption", "x", "y", "width", "height") if not row.get(name)]
    if missing:
        raise ValueError(f"{where}: no column {missing[0]!r}; there are {', '.join(row)}")
    name = f"{row['image_id']}.jpg"
    box = [row[key] for key in ("x", "y", "width", "height")]
    picture = files.picture(*(form.format(name) for form in _GENOME), box=box)
    captions = [row["caption"], *_listed(row[column], f"{where}, column {column!r}")]
    yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, name)


def _listed(text: str, where: str) -> list[str]:
    """A Python list of texts, as text; read as a literal and never run."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"{where} should be a list of texts, found {text[:60]!r}") from error
    if not isinstance(value, list) or not value or not all(isinstance(caption, str) for caption in value):
        raise ValueError(f"{where} should be a list of texts, found {text[:60]!r}")
    return value


def valse(files: Files) -> Iterator[SuiteRow]:
    """VALSE's eleven files; rows that fewer than two of three annotators found right are left out and counted."""
    for stem, subset in VALSE.items():
        refused = 0
        for where, key, row in files.json(f"data/{stem}.json", f"{stem}.json", kind=dict):
            annotated = row.get("mturk") or {} if isinstance(row, dict) else {}
            votes = annotated.get("caption", VALSE_VOTES) if isinstance(annotated, dict) else annotated
            if whole_number(votes, f"{where}, field 'mturk'") < VALSE_VOTES:
                refused += 1
                continue
            name = text_of(row, "image_file", where)
            captions = [text_of(row, name_, where) for name_ in ("caption", "foil")]
            folders = ("", "images/", f"images/{stem}/", "val2017/", "val2014/", "train2014/", "VG_100K/")
            picture = files.picture(*(folder + name for folder in folders))
            yield from files.row(f"{subset}/{key}", subset, "captions", [picture], captions, name)
        if refused:
            rows = number_of(refused, "row")
            files.notes.append(f"{subset}: {rows} left out that annotators did not confirm, as VALSE does")


_SETTING = re.compile(r'^\s*(ANNO_PATH|IMG_ROOT)\s*:\s*"?([^"\n]*?)"?\s*$', re.MULTILINE)


def checklist(files: Files) -> Iterator[SuiteRow]:
    """VL-CheckList: `corpus/v1/**.yaml` name a JSON of [image, POS and NEG] and an image root; 1,000 rows of each."""
    corpus = sorted((files.own / "corpus" / "v1").rglob("*.yaml"))
    if not corpus:
        raise FileNotFoundError(f"{files.own} holds no corpus/v1/**/*.yaml")
    for path in corpus:
        settings = dict(_SETTING.findall(text_of_file(path)))
        if not {"ANNO_PATH", "IMG_ROOT"} <= set(settings):
            raise ValueError(f"{path}: expected ANNO_PATH and IMG_ROOT, found {', '.join(settings) or 'neither'}")
        subset = path.relative_to(files.own / "corpus" / "v1").with_suffix("").as_posix()
        yield from _checklist_file(files, settings["ANNO_PATH"], settings["IMG_ROOT"], subset)


def _checklist_file(files: Files, name: str, images: str, subset: str) -> Iterator[SuiteRow]:
    rows = list(files.json(name, kind=list))
    for where, number, entry in rows[:CHECKLIST_ROWS]:
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise ValueError(f"{where}: expected [image, texts], found {str(entry)[:60]}")
        listed = [field_of(entry[1], key, where) for key in ("POS", "NEG")]
        if not all(isinstance(texts, list) and texts and isinstance(texts[0], str) for texts in listed):
            raise ValueError(f"{where}: fields 'POS' and 'NEG' should be lists of texts, found {str(listed)[:60]}")
        positive, negative = (texts[0] for texts in listed)
        path = images.rstrip("/") + "/" + entry[0]
        picture = files.picture(path, f"images/{path}", entry[0])
        yield from files.row(f"{subset}/{number}", subset, "captions", [picture], [positive, negative], entry[0])
    if not rows:
        files.notes.append(f"{subset}: {name} is an empty list, as published")


def whatsup(files: Files) -> Iterator[SuiteRow]:
    """What'sUp's controlled images A and B (four captions), and COCO and GQA of one or two objects (two captions)."""
    for subset, name in WHATSUP.items():
        for where, number, row in files.json(name, f"data/{name}", kind=list):
            if subset in "ab":
                path = "/".join(PurePosixPath(text_of(row, "image_path", where)).parts[-2:])
                captions = field_of(row, "caption_options", where)
                sets = _placed(path, subset)
            else:
                if not isinstance(row, list) or len(row) != 3:
                    raise ValueError(f"{where}: expected [id, right caption, wrong caption], found {str(row)[:60]}")
                coco = subset.startswith("coco")
                path = f"val2017/{whole_number(row[0], where):012d}.jpg" if coco else f"vg_images/{row[0]}.jpg"
                captions, sets = row[1:], {}
            picture = files.picture(path, f"data/{path}")
            yield from files.row(f"{subset}/{number}", subset, "captions", [picture], captions, path, sets=sets)


def _placed(path: str, subset: str) -> dict[str, str]:
    """The pair (left and right, or the two others) and the set of four that a controlled image belongs to."""
    stem = Path(path).stem
    match = re.fullmatch(r"(.+?)_(left_of|right_of|on|under|in-front_of|behind)_(.+)", stem)
    if match is None:
        return {}
    names = f"{subset}: {match[1]} {match[3]}"
    sideways = match[2] in ("left_of", "right_of")
    return {"pair": f"{names} {'sideways' if sideways else 'other'}", "set of four": names}


def countbench(files: Files) -> Iterator[SuiteRow]:
    """CountBench: the caption against the eight with another number word in its place.

    Images are links: those that were fetched lie in `images/`, named by the row's number or the link's last part.
    """
    for where, number, row in files.json("CountBench.json", kind=list):
        caption, count = text_of(row, "text", where), field_of(row, "number", where)
        if not isinstance(count, int) or not 2 <= count <= 10:
            raise ValueError(f"{where}: field 'number' should be 2 to 10, found {count!r}")
        word = re.compile(rf"\b{NUMBERS[count - 2]}\b", re.IGNORECASE)
        if not word.search(caption):
            raise ValueError(f"{where}: field 'text' does not hold the word {NUMBERS[count - 2]!r}: {caption!r}")
        wrong = [_renumbered(caption, word, replacement) for replacement in NUMBERS]
        captions = [caption, *(text for k, text in enumerate(wrong) if k != count - 2)]
        link = text_of(row, "image_url", where)
        named = [f"images/{number}{ending}" for ending in (".jpg", ".png", ".webp")]
        picture = files.picture(*named, f"images/{PurePosixPath(link.split('?')[0]).name}")
        yield from files.row(str(number), str(count), "captions", [picture], captions, link)


def negbench(files: Files) -> Iterator[SuiteRow]:
    """NegBench's tables of images: an image, four captions, and which is right; subsets by table and kind of caption.

    `image_path` is a path on the authors' machine: its last part is looked for.
    """
    present = {name: table for name, table in NEGBENCH.items() if files.has(table, f"images/{table}")}
    if not present:
        files.find(*NEGBENCH.values())
    for name, table in present.items():
        path = files.find(table, f"images/{table}")
        for number, (where, row) in enumerate(csv_rows(path.read_bytes(), str(path))):
            place = PurePosixPath(text_of(row, "image_path", where).replace("\\", "/"))
            captions = [text_of(row, f"caption_{choice}", where) for choice in range(_CHOICES)]
            answer = text_of(row, "correct_answer", where).strip().removesuffix(".0")
            if answer not in map(str, range(_CHOICES)):
                raise ValueError(f"{where}: field 'correct_answer' is {answer!r}, expected 0 to {_CHOICES - 1}")
            right = int(answer)
            ordered = [captions[right], *(caption for choice, caption in enumerate(captions) if choice != right)]
            kind = text_of(row, "correct_answer_template", where).strip() or "all"
            picture = files.picture(*(f"{folder}/{place.name}" for folder in _NEGBENCH_FOLDERS[name]), place.name)
            yield from files.row(f"{name}/{number}", f"{name}/{kind}", "captions", [picture], ordered, place.name)


def _renumbered(caption: str, word: re.Pattern[str], number: str) -> str:
    return word.sub(lambda match: number.capitalize() if match[0][0].isupper() else number, caption)


def _coco(files: Files, name: str) -> Any:
    return files.picture(f"val2017/{name}", name, f"images/{name}")
