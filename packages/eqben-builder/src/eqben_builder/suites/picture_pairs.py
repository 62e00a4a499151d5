"""Readers of suites with two images and two captions, with paraphrases, with wrong images, and with statements."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from eqben_builder import formats
from eqben_builder.suites.files import Files, column_picture, csv_rows, field_of, tables_of, text_of
from eqben_builder.untrusted import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eqben_builder.suites.files import SuiteRow

MMVP = (
    "Orientation", "Presence", "State", "Quantity", "Spatial", "Color", "Structural Character", "Text",
    "Camera Perspective",
)  # fmt: skip
IMAGES_OF_A_SET = 10
_SETS = ("image-sets", "image_sets", "games", "images", "data/image-sets")
_STATIC = "open-images"
#: What MMVP-VLM's authors put before a statement.
MMVP_PROMPT = "a photo of "


def winoground(files: Files) -> Iterator[SuiteRow]:
    """Winoground's `examples.jsonl` with `images/` or `images.zip`, or its parquet file; by collapsed tag."""
    for row in formats.read_any(files.own):
        yield from _pair(files, row, row.aspect or "all", f"winoground {row.id}")


def eqben(files: Files) -> Iterator[SuiteRow]:
    """EqBen's JSON files (AG, YouCook2, GEBC, Kubric's three, SD), each beside its images, or the 10 % subset."""
    paths = [path for path in sorted(files.own.glob("*.json")) if not path.name.startswith("eqben_all")]
    if not paths:
        raise FileNotFoundError(f"{files.own} holds no JSON file of EqBen")
    for path in paths:
        for row in formats.read_any(path):
            kubric = f"kubric/{row.aspect}" if row.subset == "kubric" and row.aspect else row.subset
            cluster = f"{row.subset} {row.source['video']}" if "video" in row.source else f"{path.stem}/{row.id}"
            yield from _pair(files, row, kubric, cluster, prefix=path.stem)


def _pair(files: Files, row: Any, subset: str, cluster: str, prefix: str = "") -> Iterator[SuiteRow]:
    if row.image1 is None:
        raise ValueError(f"pair {row.id!r} has one image, expected two")
    name = f"{prefix}/{row.id}".lstrip("/")
    yield from files.row(name, subset, "pairs", row.pictures(), [row.caption0, row.caption1], cluster)


def bivlc(files: Files) -> Iterator[SuiteRow]:
    """BiVLC's parquet: SugarCrepe's image and caption, a generated image for the negative caption; by type."""
    for path, table in tables_of(files.own, "*.parquet"):
        columns = ("image", "caption", "negative_caption", "negative_image", "type", "subtype")
        texts = _texts(table, path, columns[1:3] + columns[4:])
        for number, row in enumerate(texts):
            pictures = [column_picture(table, name, number, path) for name in ("image", "negative_image")]
            captions = [row["caption"], row["negative_caption"]]
            subset = f"{row['type']}/{row['subtype']}".lower()
            yield from files.row(f"{path.stem}/{number}", subset, "pairs", pictures, captions, row["caption"])


def vismin(files: Files) -> Iterator[SuiteRow]:
    """VisMin's arrow files: image_0, text_0, image_1, text_1 and a category."""
    for path, table in tables_of(files.own, "*.arrow", "*.parquet"):
        for number, row in enumerate(_texts(table, path, ("id", "text_0", "text_1", "category"))):
            pictures = [column_picture(table, name, number, path) for name in ("image_0", "image_1")]
            captions = [row["text_0"], row["text_1"]]
            yield from files.row(f"{path.stem}/{row['id']}", row["category"], "pairs", pictures, captions, row["id"])


def _texts(table: Any, path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    absent = [name for name in columns if name not in table.column_names]
    if absent:
        raise ValueError(f"{path}: no column {', '.join(absent)}; there are {', '.join(table.column_names)}")
    from eqben_builder.formats.parquet import listed

    rows = []
    for number, row in enumerate(listed([table.select(list(columns))], path)):
        where = f"{path}, row {number}"
        numbered = {"id": str(row["id"])} if isinstance(row.get("id"), int) else {}
        rows.append({name: numbered[name] if name in numbered else text_of(row, name, where) for name in columns})
    return rows


def colorswap(files: Files) -> Iterator[SuiteRow]:
    """ColorSwap's `data/test.json`: caption_1, caption_2, image_1, image_2, by where the images come from."""
    for where, _, row in files.json("data/test.json", "test.json", kind=list):
        places = [text_of(row, f"image_{k}", where) for k in (1, 2)]
        captions = [text_of(row, f"caption_{k}", where) for k in (1, 2)]
        pictures = [files.picture(path, f"data/{path}") for path in places]
        yield from files.row(str(field_of(row, "id", where)), "test", "pairs", pictures, captions, places[0])


def naturalbench(files: Files) -> Iterator[SuiteRow]:
    """NaturalBench-Retrieval's `metadata.json`; the index is the position."""
    for where, number, row in files.json("metadata.json", "NaturalBench-Retrieval/metadata.json", kind=list):
        if field_of(row, "index", where) != number:
            raise ValueError(f"{where}: field 'index' is {row['index']!r}, expected {number}")
        places = [text_of(row, f"image_{k}", where) for k in (0, 1)]
        captions = [text_of(row, f"caption_{k}", where) for k in (0, 1)]
        forms = ("images/{}", "NaturalBench-Retrieval/images/{}", "{}")
        pictures = [files.picture(*(form.format(path) for form in forms)) for path in places]
        yield from files.row(str(number), "retrieval", "pairs", pictures, captions, places[0])


def mmvp(files: Files) -> Iterator[SuiteRow]:
    """MMVP-VLM's `Questions.csv`, by position: question, type, statement; questions 2k + 1 and 2k + 2 form a pair."""
    path = files.find("Questions.csv", "MMVP_VLM/Questions.csv")
    rows = [list(row.values()) for _, row in csv_rows(path.read_bytes(), str(path))]
    try:
        ordered = sorted((int(row[0]), row[1].strip(), row[2].strip()) for row in rows)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path}: expected the columns question, type and statement: {error}") from error
    if [number for number, _, _ in ordered] != list(range(1, len(ordered) + 1)) or len(ordered) % 2:
        raise ValueError(f"{path}: expected an even number of questions, numbered from 1 without gaps")
    for first, second in zip(ordered[::2], ordered[1::2], strict=True):
        if first[1] != second[1]:
            raise ValueError(f"{path}: questions {first[0]} and {second[0]} are of {first[1]!r} and {second[1]!r}")
        pictures = []
        for number, kind, _ in (first, second):
            folders = ("MLLM_VLM Images", "MMVP_VLM_Images")
            pictures.append(files.picture(*(f"{folder}/{kind}/{number}.jpg" for folder in folders)))
        captions = [MMVP_PROMPT + first[2], MMVP_PROMPT + second[2]]
        yield from files.row(f"{first[0]}-{second[0]}", first[1], "pairs", pictures, captions, str(first[0]))


def cola(files: Files) -> Iterator[SuiteRow]:
    """Cola's multi-object file: [link, caption, link, caption]; a link's last part is Visual Genome's file."""
    name = "COLA_multiobjects_matching_benchmark.json"
    for where, number, entry in files.json(f"data/{name}", name, kind=list):
        if not isinstance(entry, list) or len(entry) != 4 or not all(isinstance(text, str) for text in entry):
            raise ValueError(f"{where}: expected [link, caption, link, caption]")
        names = [PurePosixPath(entry[k]).name for k in (0, 2)]
        forms = ("images/{}", "vg_gqa_images/{}", "VG_100K/{}", "VG_100K_2/{}", "{}")
        pictures = [files.picture(*(form.format(name) for form in forms)) for name in names]
        yield from files.row(str(number), "multi_object", "pairs", pictures, [entry[1], entry[3]], names[0])


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
                if not isinstance(keys, list) or type(label) is not int or not 0 <= label < len(keys):
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
    """SVO-Probes' `svo_probes.csv`: a sentence, its image and one where subject, verb or object differs.

    Images are links: those that were fetched lie in `images/`, named by their id.
    """
    path = files.find("svo_probes.csv", "data/svo_probes.csv")
    for number, (where, row) in enumerate(csv_rows(path.read_bytes(), str(path))):
        sentence = text_of(row, "sentence", where)
        names = [text_of(row, f"{side}_image_id", where) for side in ("pos", "neg")]
        pictures = [files.picture(f"images/{n}.jpg", f"images/{n}.png", f"images/{n}") for n in names]
        for kind in ("subj", "verb", "obj"):
            if text_of(row, f"{kind}_neg", where).strip().lower() == "true":
                yield from files.row(f"{number}/{kind}", kind, "images", pictures, [sentence], names[0])


def imagecode(files: Files) -> Iterator[SuiteRow]:
    """ImageCoDe's `valid_data.json`: descriptions by set of ten images and number of the right one.

    A set's images are in the order of the numbers in their names; sets of Open Images are called static.
    """
    for where, key, descriptions in files.json("valid_data.json", "data/valid_data.json", kind=dict):
        if not isinstance(descriptions, dict):
            raise ValueError(f"{where}: expected descriptions by number, found {str(descriptions)[:60]}")
        pictures = [
            files.picture(*(f"{folder}/{key}/img{number}.jpg" for folder in _SETS), f"{key}/img{number}.jpg")
            for number in range(IMAGES_OF_A_SET)
        ]
        subset = "static" if _STATIC in key else "video"
        for number in descriptions:
            caption = text_of(descriptions, number, where).strip()
            if number not in map(str, range(IMAGES_OF_A_SET)):
                raise ValueError(f"{where}: the image {number!r}, expected 0 to {IMAGES_OF_A_SET - 1}")
            right = int(number)
            ordered = [pictures[right], *(picture for at, picture in enumerate(pictures) if at != right)]
            yield from files.row(f"{key}/{number}", subset, "images", ordered, [caption], key)


def vsr(files: Files) -> Iterator[SuiteRow]:
    """VSR's `data/splits/SPLIT/test.jsonl`: an image, a caption, and whether it is true; the folder is the link's."""
    for split in VSR:
        path = files.find(f"data/splits/{split}/test.jsonl", f"splits/{split}/test.jsonl", f"{split}/test.jsonl")
        for number, (where, row) in enumerate(json_lines(path)):
            name, caption = text_of(row, "image", where), text_of(row, "caption", where)
            label = field_of(row, "label", where)
            if label not in (0, 1):
                raise ValueError(f"{where}: field 'label' is {label!r}, expected 0 or 1")
            folder = "train2017" if "train2017" in str(row.get("image_link", "")) else "val2017"
            alternative = "val2017" if folder == "train2017" else "train2017"
            picture = files.picture(f"{folder}/{name}", f"{alternative}/{name}", f"images/{name}")
            subset = str(row.get("relation") or "")
            yield from files.row(
                f"{split}/{number}", split, "statement", [picture], [caption], name, group=subset, label=bool(label)
            )
