"""Readers of whole folders for `trust_fuzz.py`: one file of a folder is mutated, and the folder is read.

The folders are those that the packages' tests write, in the layouts of the data sets' authors, or that a command made.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import sys
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

PACKAGES = Path(__file__).parents[1] / "packages"
LONGEST = 1200
"""Characters of a refusal's message."""
Read = Callable[[bytes], object]
Made = Callable[[Path], tuple[list[bytes], Read]]
TEXTS = {".json", ".jsonl", ".csv", ".tsv", ".txt", ".toml", ".yaml", ".xml", ".yml", ""}
"""Endings of what is mutated; the others have readers of their own."""


def of_files(
    folder: Path, read: Callable[[], object], names: set[str] = TEXTS, *, of_equal_length: bool = False
) -> tuple[list[bytes], Read]:
    """Wholes are a file's number and its content, so that a splice may write one file's content into another."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in names)
    contents = [path.read_bytes() for path in files]
    changed: set[int] = set()

    def parse(content: bytes) -> object:
        for number in changed:
            files[number].write_bytes(contents[number])
        changed.clear()
        at = content[0] % len(files) if content else 0
        changed.add(at)
        changed_to = content[1:]
        if of_equal_length:  # another length is refused before anything is read
            changed_to = (changed_to + contents[at])[: len(contents[at])]
        files[at].write_bytes(changed_to)
        return read()

    return [
        bytes([number]) + text for number, text in enumerate(contents) if len(text) < 20_000 and number < 256
    ], parse


def unclear(error: ValueError | FileNotFoundError) -> str:
    """Return what is wrong with a refusal's message, which has to be one line that names the file; empty if nothing."""
    message = str(error)
    if "\n" in message or len(message) > LONGEST:
        return f"a refusal of {len(message)} characters in {message.count(chr(10)) + 1} lines: {message[:200]!r}"
    return "" if "fuzz" in message or "/" in message else f"a refusal that names no file: {message[:200]!r}"


class UnclearError(Exception):
    """A refusal that is no clear line."""


def each(*calls: Callable[[], object]) -> Callable[[], object]:
    """Each reader by itself, so that one which refuses does not keep the others from reading."""

    def read() -> object:
        refused = 0
        for call in calls:
            try:
                call()
            except (ValueError, FileNotFoundError) as error:
                refused += 1
                if wrong := unclear(error):
                    raise UnclearError(wrong) from error
        if refused == len(calls):
            raise ValueError(f"{refused} refused")
        return refused

    return read


def tests_of(package: str, name: str) -> ModuleType:
    """A module of a package's tests."""
    path = PACKAGES / package / "tests" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"fuzzed_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def fresh(root: Path, name: str) -> Path:
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def data_set(name: str, writer: str, folder: Path) -> tuple[list[bytes], Read]:
    """A data set's own files, as `gate_data` reads them."""
    from gate_data import load

    root = fresh(folder, f"gate-{name}-{writer}")
    if writer == "icinw":
        tests_of("gate-runner", "test_icinw_originals").WRITERS[name](root)
    else:
        getattr(tests_of("gate-runner", "_gate_files"), writer)(root)
    # of a training set too small for ELEVATER's validation split, nothing but its files is read
    short = writer == "icinw"
    return of_files(root, (lambda: undivided(name, root)) if short else (lambda: load(name, root, size=8)))


def undivided(name: str, root: Path) -> object:
    """Both sides of one of ELEVATER's data sets."""
    from gate_data.imports import named
    from gate_data.originals_by_name import ORIGINALS

    originals: Any = named(ORIGINALS[name])
    return originals.content(originals.find(root))


def suite(name: str, write: Callable[[ModuleType, Path], None], folder: Path) -> tuple[list[bytes], Read]:
    """A suite's own files, as `eqben_builder.suites` reads them."""
    from eqben_builder.suites import SUITES, read_gallery, read_suite

    root = fresh(folder, f"suite-{name}")
    write(tests_of("eqben-builder", "test_suites"), root)
    return of_files(root, lambda: read_gallery(root, name) if name == "coco" else read_suite(SUITES[name], root))


def _images(writers: ModuleType, root: Path, *names: str) -> None:
    writers.image(root, *names)


def whatsup(writers: ModuleType, root: Path) -> None:
    options = [f"A cup {where} a chair" for where in ("left of", "right of", "on", "under")]
    row = {"image_path": "data/controlled_images/cup_left_of_chair.jpeg", "caption_options": options}
    writers.dump(root, "whatsup/controlled_images_dataset.json", [row])
    other = {"image_path": "data/controlled_clevr/cup_in-front_of_chair.jpeg", "caption_options": options}
    writers.dump(root, "whatsup/controlled_clevr_dataset.json", [other])
    for name in ("coco_qa_one_obj", "coco_qa_two_obj", "vg_qa_one_obj", "vg_qa_two_obj"):
        writers.dump(root, f"whatsup/{name}.json", [[139, "A photo of a cup to the left", "A photo to the right"]])
    _images(writers, root / "whatsup", "controlled_images/cup_left_of_chair.jpeg",
            "controlled_clevr/cup_in-front_of_chair.jpeg", "val2017/000000000139.jpg", "vg_images/139.jpg")  # fmt: skip


def spec(writers: ModuleType, root: Path) -> None:
    from eqben_builder.suites.picture_pairs import SPEC

    for subset in SPEC:
        folder, keys = root / "spec" / subset, ["one cup", "two cups"]
        writers.dump(folder, "image2text.json", [{"query": "images/0.jpg", "keys": keys, "label": 1}])
        writers.dump(
            folder, "text2image.json", [{"query": "cups", "keys": ["images/0.jpg", "images/1.jpg"], "label": 1}]
        )
        _images(writers, folder, "images/0.jpg", "images/1.jpg")


def checklist(writers: ModuleType, root: Path) -> None:
    folder = root / "vl-checklist"
    (folder / "corpus/v1/Attribute/color").mkdir(parents=True)
    settings = 'ANNO_PATH: "data/Attribute/vg/color.json"\nIMG_ROOT: "vg/"\nTYPE: "TUPLE_JSON"\n'
    (folder / "corpus/v1/Attribute/color/vg.yaml").write_text(settings)
    writers.dump(folder, "data/Attribute/vg/color.json", [["VG_100K/1.jpg", {"POS": ["red cup"], "NEG": ["blue cup"]}]])
    _images(writers, folder, "vg/VG_100K/1.jpg")


def countbench(writers: ModuleType, root: Path) -> None:
    row = {"image_url": "https://a.org/x/c.jpg?w=1", "text": "Three cups on three tables", "number": 3}
    writers.dump(root, "countbench/CountBench.json", [row])
    _images(writers, root, "countbench/images/c.jpg")


def vsr(writers: ModuleType, root: Path) -> None:
    record = {"image": "1.jpg", "image_link": "http://x/train2017/1.jpg", "caption": "It is left.", "label": 1,
            "relation": "left of", "subj": "[18, 2]"}  # fmt: skip
    for split in ("random", "zeroshot"):
        path = root / "vsr/data/splits" / split / "test.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record) + "\n" + json.dumps(record | {"label": 0}) + "\n")
    _images(writers, root, "coco/train2017/1.jpg")


def svo(writers: ModuleType, root: Path) -> None:
    row = {"sentence": "A man rides a horse.", "pos_triplet": "man,ride,horse", "neg_triplet": "man,ride,bike",
           "pos_url": "u", "neg_url": "v", "pos_image_id": "1", "neg_image_id": "2", "subj_neg": "False",
           "verb_neg": "True", "obj_neg": "True"}  # fmt: skip
    (root / "svo-probes").mkdir()
    (root / "svo-probes/svo_probes.csv").write_text(writers.csv_text([row]))
    _images(writers, root, "svo-probes/images/1.jpg", "svo-probes/images/2.jpg")


def colorswap(writers: ModuleType, root: Path) -> None:
    row = {"id": 7, "caption_1": "a red cup", "caption_2": "a blue cup", "image_1": "images/1.png",
           "image_2": "images/2.png", "image_source": "midjourney", "caption_source": "human"}  # fmt: skip
    writers.dump(root, "colorswap/data/test.json", [row])
    _images(writers, root, "colorswap/data/images/1.png", "colorswap/data/images/2.png")


def naturalbench(writers: ModuleType, root: Path) -> None:
    row = {"index": 0, "image_0": "a.jpg", "image_1": "b.jpg", "caption_0": "a", "caption_1": "b"}
    writers.dump(root, "naturalbench/metadata.json", [row])
    _images(writers, root, "naturalbench/images/a.jpg", "naturalbench/images/b.jpg")


def cola(writers: ModuleType, root: Path) -> None:
    links = ["https://x.org/vg_gqa_images/1.jpg", "a red cup", "https://x.org/vg_gqa_images/2.jpg", "a blue cup"]
    writers.dump(root, "cola/data/COLA_multiobjects_matching_benchmark.json", [links])
    _images(writers, root, "visual_genome/VG_100K/1.jpg", "visual_genome/VG_100K_2/2.jpg")


def mmvp(writers: ModuleType, root: Path) -> None:
    lines = ["Question ID,Type,Statement", "1,Orientation,a cup facing left", "2,Orientation,a cup facing right"]
    (root / "mmvp").mkdir()
    (root / "mmvp/Questions.csv").write_text("\n".join(lines) + "\n")
    _images(writers, root / "mmvp", "MLLM_VLM Images/Orientation/1.jpg", "MLLM_VLM Images/Orientation/2.jpg")


def winoground(writers: ModuleType, root: Path) -> None:
    row = {"id": 0, "image_0": "a", "image_1": "b", "caption_0": "a b", "caption_1": "b a", "collapsed_tag": "R"}
    (root / "winoground").mkdir()
    (root / "winoground/examples.jsonl").write_text(json.dumps(row) + "\n")
    _images(writers, root, "winoground/images/a.png", "winoground/images/b.png")


def eqben(writers: ModuleType, root: Path) -> None:
    pair = {"image0": "eqbenkubric_attr/a0.png", "image1": "eqbenkubric_attr/a1.png", "caption0": "a", "caption1": "b"}
    writers.dump(root, "eqben/ann_json_finegrained_eqkubric_attr.json", [pair])
    video = {"v1": [{"image0": "eqbengebc/a0.jpg", "image1": "eqbengebc/a1.jpg", "caption0": "a", "caption1": "b"}]}
    writers.dump(root, "eqben/ann_json_finegrained_eqgebc.json", video)
    _images(writers, root / "eqben", pair["image0"], pair["image1"], "eqbengebc/a0.jpg", "eqbengebc/a1.jpg")


def eqben_build(root: Path) -> tuple[list[bytes], Read]:
    """A whole build: verified, two of its pairs made again."""
    from eqben_builder.building import build, read_records, verify
    from eqben_builder.micro.builder import MicroBuilder

    folder = fresh(root, "build")
    build(MicroBuilder(aspects=["count", "attribute"], size=32, seed=3), folder, pairs=2)
    return of_files(folder, lambda: (verify(folder, render=1, seed=0), list(read_records(folder))))


def eqben_journal(root: Path) -> tuple[list[bytes], Read]:
    """A build that was killed, and is gone on with."""
    from eqben_builder.building.folder import JOURNAL, Ledger

    folder = fresh(root, "journal")
    ledger = Ledger(folder)
    for job in range(2):
        ledger.commit(job, [{"aspect": "count"}], {f"images/000/{job}_0.png": b"x"}, [(1, 2)], {"dark": 1})
    ledger.close()
    whole, pairs = (folder / JOURNAL).read_bytes(), (folder / "pairs.jsonl").read_bytes()

    def parse(content: bytes) -> object:
        (folder / JOURNAL).write_bytes(content)
        (folder / "pairs.jsonl").write_bytes(pairs)
        ledger = Ledger(folder)
        ledger.close()
        return ledger.entries

    return [whole], parse


def eqben_forms(root: Path) -> tuple[list[bytes], Read]:
    """EqBen's JSON with its pictures, votes, and annotations of videos."""
    from eqben_builder.building import build
    from eqben_builder.formats import read_any, write_as
    from eqben_builder.micro.builder import MicroBuilder
    from eqben_builder.pages.review import SCHEMA, read_votes
    from eqben_builder.video.gebc import read_gebc
    from eqben_builder.video.youcook2 import read_youcook2

    built, folder = fresh(root, "made"), fresh(root, "forms")
    build(MicroBuilder(aspects=["count"], size=32), built, pairs=2)
    write_as(read_any(built), folder / "pictures", "eqben-flat")
    votes = {"schema": SCHEMA, "source": "0f", "votes": {"a": {"vote": "reject", "note": "dark"}}}
    (folder / "votes.json").write_text(json.dumps(votes))
    boundary = {"boundary_id": "v_0", "next_timestamp": 2.0, "prev_timestamp": 0.0, "timestamp": 1.0,
                "status_before": "standing", "status_after": "sitting", "label": "A", "subject": "man"}  # fmt: skip
    (folder / "gebc.json").write_text(json.dumps({"v": [boundary]}))
    steps = [{"segment": [0, 9], "id": 0, "sentence": "cut the onion"}]
    (folder / "youcook2.json").write_text(json.dumps({"database": {"v": {"annotations": steps, "duration": 9.5}}}))

    return of_files(
        folder,
        each(
            lambda: list(read_any(folder / "pictures")),
            lambda: read_votes(folder / "votes.json"),
            lambda: read_gebc(folder / "gebc.json"),
            lambda: read_youcook2(folder / "youcook2.json"),
        ),
    )


def oven_project(root: Path) -> tuple[list[bytes], Read]:
    """A knowledge base with names and vectors: what its manifests say."""
    from oven_retrieval import Entity, KnowledgeBase, build_kb, build_name_index, open_name_index

    folder = fresh(root, "project")
    kb = build_kb([Entity("Q1", "Wood", aliases=("a",)), Entity("Q2", "Duck")], folder / "kb")
    build_name_index(kb, folder / "names")

    def read() -> object:
        base = KnowledgeBase(folder / "kb")
        return list(base), open_name_index(folder / "names", base).link(["Wood", "Duc"], k=2)

    return of_files(folder, read)


def oven_index(root: Path) -> tuple[list[bytes], Read]:
    """The arrays of names' indexes, whose digests nobody asks for when a folder is opened: searched by numba's loop."""
    from oven_retrieval import Entity, build_kb, build_name_index, open_name_index

    folder = fresh(root, "index")
    kb = build_kb([Entity(f"Q{n}", f"thing {n % 7} of {n}", aliases=(f"a{n}",)) for n in range(40)], folder / "kb")
    build_name_index(kb, folder / "names")

    def read() -> object:
        linker = open_name_index(folder / "names", kb)
        linker.typos = True
        return linker.link([*(f"thing {n}" for n in range(5)), "thnig"], k=3)

    read()  # compiled once, in the process that the children are forked from
    return of_files(folder / "names", read, {".bin"}, of_equal_length=True)


def oven_cards(root: Path) -> tuple[list[bytes], Read]:
    """A trained model's description and a calibration: one reader each."""
    from oven_retrieval.models.trained import KIND, read_config
    from oven_retrieval.refusal import Calibration

    folder = fresh(root, "cards")
    config = {"kind": "clip2clip", "kb": "k", "encoder": "e@1", "template": "{}", "fine_tune": None, "dim": 4}
    (folder / "model.json").write_text(json.dumps({"kind": KIND, "config": config, "report": {"steps": 2}}))
    Calibration((1.0, 2.0), 0.5, (0.0, 0.0), (1.0, 1.0), 0.9, (1.0, 2.0, 3.0)).write(folder / "calibration.json")
    features = np.zeros((1, 2))

    return of_files(
        folder,
        each(
            lambda: read_config(folder),
            lambda: Calibration.read(folder / "calibration.json").presence(features),
        ),
    )


def eevee_files(root: Path) -> tuple[list[bytes], Read]:
    """A selection and a choice of items, read back."""
    import eevee

    folder, table = fresh(root, "eevee"), eevee.load_table("gate")
    eevee.select(table, k=2, method="greedy", nested=False, randoms=20).to_json(folder / "chosen.json")
    draw = np.random.default_rng(0)
    values = (draw.random((12, 60)) < 0.5).astype(float)
    toy = eevee.Outcomes("toy", tuple(f"m{i}" for i in range(12)), tuple(f"i{j}" for j in range(60)), values)
    eevee.choose_items({"toy": toy}, count=5).to_json(folder / "items.json")

    return of_files(
        folder,
        each(
            lambda: eevee.read_selection(folder / "chosen.json", table),
            lambda: eevee.read_items(folder / "items.json"),
        ),
    )


def runner_configurations(root: Path) -> tuple[list[bytes], Read]:
    """``--config``: a TOML file and a manifest, as far as the request."""
    from gate_runner.runs.request import make_request
    from gate_runner.settings import Settings
    from gate_runner.settings.configuration import read_configuration

    folder = fresh(root, "configurations")
    (folder / "run.toml").write_text(
        'names = ["digits"]\nencoder = "micro-clip/random"\nlimit = 40\nseeds = [0, 1]\nisolate = "worker"\n'
        'tune = "full"\ntime_limit = "20m"\nshots = "0,5"\n[recipe_fields]\nlr = 0.1\n'
    )
    request = {"names": ["digits"], "encoder": "micro-clip", "limit": 7, "seeds": [3], "wise_ft": 0.5, "tune": "full"}
    (folder / "manifest.json").write_text(json.dumps({"runs": [{"request": request}]}))

    def request_of(path: Path) -> object:
        configuration = read_configuration(path)
        return make_request(
            list(configuration.names),
            configuration.encoder or "micro-clip",
            settings=Settings().changed(**configuration.options),
        )

    return of_files(folder, each(lambda: request_of(folder / "run.toml"), lambda: request_of(folder)))


def runner_weights(root: Path) -> tuple[list[bytes], Read]:
    """A head's tensors, with the digest that its card should have of them."""
    import torch

    from vision_adapters.heads import LinearHead
    from vision_features.encoders import load_encoder
    from vision_features.heads.saved import KeptHead, load_head, save_head

    encoder, folder = load_encoder("micro-clip/random", device="cpu"), fresh(root, "weights")
    about = {"method": "logistic", "classes": ["cat", "dog"]}
    save_head(KeptHead(LinearHead(128, 2), "projected"), encoder, folder, about, start=encoder.fingerprint())
    torch.manual_seed(0)
    return of_files(folder, lambda: load_head(folder, encoder=encoder).classes, {".safetensors"})


def runner_captioned(root: Path) -> tuple[list[bytes], Read]:
    """Pictures with captions to fine-tune on: a table with false captions, and a shard."""
    from gate_runner.finetuning.pairs import read_captioned

    folder = fresh(root, "captioned")
    rows = [f"{name}.png,a {name} of {name * 3},no {name}|an {name}" for name in "abcdefghij"]
    (folder / "own").mkdir()
    (folder / "own/captions.csv").write_text("\n".join(["image,caption,negative", *rows]) + "\n")
    for name in "abcdefghij":
        Image.new("RGB", (9, 7)).save(folder / "own" / f"{name}.png")
    with tarfile.open(folder / "shard.tar", "w") as archive:
        for name in "ab":
            archive.add(folder / "own" / f"{name}.png", f"{name}.png")
            (folder / "about.json").write_text(json.dumps({"caption": f"a {name}", "negatives": [f"no {name}"]}))
            archive.add(folder / "about.json", f"{name}.json")
        (folder / "about.json").unlink()
    return of_files(
        folder,
        each(lambda: read_captioned(str(folder / "own")), lambda: read_captioned(str(folder / "shard.tar"))),
        {".csv", ".tar"},
    )


def runner_own_folders(root: Path) -> tuple[list[bytes], Read]:
    """A folder of one's own: its TOML, table, COCO file, words of classes; guessed, and read."""
    from gate_data.own import guess, originals_from
    from gate_data.own.reading import read_benchmark
    from wary_files.class_names import names_from_file

    folder = fresh(root, "own")
    for name in "abcd":
        Image.new("RGB", (9, 7)).save(folder / f"{name}.png")
    (folder / "all.csv").write_text("image,label\na.png,x\nb.png,y\nc.png,x\nd.png,y\n")
    (folder / "words.json").write_text(json.dumps({"x": "an x", "y": "a y"}))
    coco = {"images": [{"id": n, "file_name": f"{name}.png", "width": 9, "height": 7} for n, name in enumerate("abcd")],
            "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dog"}],
            "annotations": [{"id": n, "image_id": n, "category_id": 3 + n % 2, "bbox": [1, 1, 3, 4], "iscrowd": 0,
                             "area": 12} for n in range(4)]}  # fmt: skip
    (folder / "coco.json").write_text(json.dumps(coco))
    for name, text in {
        "table": '[data]\nkind = "table"\ntable = "all.csv"\n[classes]\nwords = "words.json"\n[training]\nsteps = 5\n',
        "boxes": '[data]\nkind = "coco"\ntable = "coco.json"\n[splits]\ntest_share = 0.5\n',
    }.items():
        (folder / f"{name}.toml").write_text(f'[benchmark]\nid = "mine-{name}"\n{text}')

    def whole(name: str) -> object:
        own = read_benchmark(folder / name)
        originals = originals_from(own, folder / name)
        return originals.parts(folder) if originals.parts is not None else None

    return of_files(
        folder,
        each(
            lambda: whole("table.toml"), lambda: whole("boxes.toml"), lambda: guess(folder / "coco.json"),
            lambda: guess(folder / "all.csv"), lambda: names_from_file(folder / "words.json", ["x", "y"]),
        ),
    )  # fmt: skip


def runner_layouts(root: Path) -> tuple[list[bytes], Read]:
    """Others' layouts, one of each: YOLO, VOC, class maps, COCO, `imagefolder`, what `datasets` saved; looked at."""
    from gate_data.own import guess

    folder = fresh(root, "layouts")
    for name in (
        "yolo/images",
        "voc/JPEGImages",
        "maps/images",
        "maps/masks",
        "coco/images",
        "imagefolder/train",
        "saved",
    ):
        (folder / name).mkdir(parents=True)
        for letter in "abcd":
            Image.new("L" if name == "maps/masks" else "RGB", (9, 7), 1).save(folder / name / f"{letter}.png")
    coco = {"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "c"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 3]}]}  # fmt: skip
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a"]}}
    texts = {
        "yolo/data.yaml": "path: .\ntrain: images\nval: images\nnames: {0: cat, 1: dog}\n",
        "yolo/labels/a.txt": "1 .5 .5 .2 .2\n", "yolo/classes.txt": "cat\ndog\n",
        "voc/Annotations/a.xml": "<annotation><filename>a.png</filename><object><name>cat</name><bndbox><xmin>1</xmin>"
        "<ymin>1</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>",
        "voc/ImageSets/Main/train.txt": "a\nb\n", "voc/ImageSets/Main/test.txt": "c\n",
        "maps/class_dict.csv": "name,r,g,b\ncat,1,1,1\n", "maps/classes.txt": "cat\ndog\n",
        "coco/annotations.json": json.dumps(coco),
        "imagefolder/train/metadata.csv": "file_name,label\na.png,x\nb.png,y\n",
        "saved/dataset_info.json": json.dumps({"features": features}),
        "saved/state.json": '{"_data_files": [{"filename": "data.arrow"}]}',
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    layouts = sorted(path for path in folder.iterdir())
    return of_files(folder, each(*(partial(guess, path) for path in layouts)))


def cached_features(root: Path) -> tuple[list[bytes], Read]:
    """A segment of the feature cache: rows, their digests, and what its writer noted; unfinished ones, too."""
    import torch

    from vision_features.features import FeatureCache, digests_of, segments

    folder, texts = fresh(root, "features"), digests_of(list("abcdefghij"))
    rows = torch.arange(30.0).reshape(10, 3)

    def read() -> object:
        segments._SOUND.clear()  # as in a new process
        cache = FeatureCache(folder / "encoder")
        features = cache.rows("t", "text", texts, 4, lambda numbers: rows[numbers])[:]
        if features.shape != rows.shape or features.dtype != rows.dtype:
            raise RuntimeError(f"features of another shape: {features.shape} {features.dtype}")
        if not cache.encoded["text"]:
            raise ValueError("as it was")
        shutil.rmtree(folder / "encoder")
        FeatureCache(folder / "encoder").rows("t", "text", texts, 4, lambda numbers: rows[numbers])
        return features

    cache = FeatureCache(folder / "encoder")
    cache.rows("t", "text", texts, 4, lambda numbers: rows[numbers])
    (digests,) = (folder / "encoder" / "text").glob("*.digests.npy")
    part = digests.with_name(digests.name.replace(".digests.npy", ".part"))
    part.write_bytes(b"".join(digest.ljust(16, b"\0") for digest in texts.tolist()))
    return of_files(folder / "encoder", lambda: _restored(read), {".npy", ".done", ".part"})


def _restored(read: Callable[[], object]) -> object:
    """The same, where what is as it was is no refusal."""
    with contextlib.suppress(ValueError):
        return read()
    return None


def training_checkpoint(root: Path) -> tuple[list[bytes], Read]:
    """A checkpoint of a training that was stopped, and is gone on with."""
    import torch

    from vision_adapters.heads import LinearHead, seeded
    from vision_adapters.losses import cross_entropy
    from vision_adapters.training import Recipe, fit

    folder = fresh(root, "training")
    recipe = Recipe(lr=0.05, steps=4, batch_size=5, validate_every=2)
    x, y = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2

    def train(stop: int | None = None) -> object:
        head = seeded(lambda: LinearHead(3, 2), 1)
        return fit(head, (x,), y, loss=cross_entropy, recipe=recipe, direction="lower", seed=3, stop=stop,
                   validate=lambda module: float(cross_entropy(module(x), y)), checkpoint=folder / "c.pt")  # fmt: skip

    train(stop=2)
    whole = (folder / "c.pt").read_bytes()

    def parse(content: bytes) -> object:
        (folder / "c.pt").write_bytes(content)
        try:
            return train()
        except FloatingPointError as error:  # weights that were made huge: what any training says that diverges
            raise ValueError(str(error)) from error

    return [whole], parse


def oven_vectors(root: Path) -> tuple[list[bytes], Read]:
    """Vectors and FAISS's index of them: manifests and bytes, whose digests anyone can compute."""
    import hashlib

    from oven_retrieval.vectors import VectorStore, build_index, build_vectors, open_index
    from oven_retrieval.vectors.plan import IndexPlan

    folder = fresh(root, "vectors-and-index")
    values = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    store = build_vectors(lambda a, b: values[a:b], 120, folder / "vectors", kb="k", encoder="e")
    build_index(store, folder / "index", plan=IndexPlan("IVF2,SQ8", 2, 1.0, "small"))
    whole = json.loads((folder / "index" / "manifest.json").read_text())

    def read() -> object:
        manifest, content = folder / "index" / "manifest.json", (folder / "index" / "index.bin").read_bytes()
        try:
            is_whole = json.loads(manifest.read_text()) == whole
        except ValueError:  # which the reader has to name
            is_whole = False
        if is_whole:
            signed = json.loads(json.dumps(whole))
            signed["columns"]["index"] |= {"sha256": hashlib.sha256(content).hexdigest(), "shape": [len(content)]}
            manifest.write_text(json.dumps(signed))
        try:
            return open_index(folder / "index", VectorStore(folder / "vectors")).search(values[:2], 3)
        finally:
            manifest.write_text(json.dumps(whole))

    return of_files(folder, read, {".json", ".bin"})


def knowledge_files(root: Path) -> tuple[list[bytes], Read]:
    """Class prompts, cached answers, GLIP's file, a dump of Wiktextract and WordNet's own files."""
    from knowledge_prompts import ClassPrompts, load_class_prompts, named_sources
    from knowledge_prompts.sources.generated import _answer_of

    folder = fresh(root, "knowledge")
    (folder / "own.json").write_text(json.dumps({"name": "birds", "templates": ["a {}."], "classes": ["owl", "hen"]}))
    (folder / "glip.yaml").write_text("owl: {def_wn: a bird, def_wiki: a bird of prey, path_wn: [owl, bird]}\n")
    (folder / "dump.jsonl").write_text(
        json.dumps({"word": "owl", "pos": "noun", "lang_code": "en", "senses": [{"glosses": ["A bird."]}]}) + "\n"
    )
    (folder / "answers.jsonl").write_text(json.dumps({"key": "k", "answer": "A bird."}) + "\n")
    prompts = ClassPrompts("birds", ["a {}."], ["owl", "hen"])
    return of_files(
        folder,
        each(
            lambda: load_class_prompts(folder / "own.json"),
            lambda: [source.items("owl") for source in named_sources(f"glip={folder / 'glip.yaml'}", prompts)],
            lambda: [source.items("owl") for source in named_sources(f"wiktionary={folder / 'dump.jsonl'}", prompts)],
            lambda: [_answer_of(folder, 1, line) for line in (folder / "answers.jsonl").read_bytes().splitlines()],
        ),
    )


GATE = (
    "food101 places365 happy aircraft dtextures coco_10k pascal chexpert "
    "chestxray14 diabetic ham10k clevr flickr30k nycc winoground hmdb51 ucf kinetics"
)
ICINW = (
    "dtd fgvc-aircraft-2013b-variants102 food-101 gtsrb hateful-memes kitti-distance oxford-iiit-pets "
    "voc-2007-classification"
)
_NAMES = {"coco_10k": "coco-10k"}
_WRITTEN = {"sugarcrepe": "write_sugarcrepe", "aro": "write_aro", "valse": "write_valse", "coco": "write_coco"}
_SUITES: dict[str, Callable[[ModuleType, Path], None]] = {
    **{name: partial(lambda writers, root, writer: getattr(writers, writer)(root), writer=writer)
       for name, writer in _WRITTEN.items()},
    "whatsup": whatsup, "spec": spec, "vl-checklist": checklist, "countbench": countbench, "vsr": vsr,
    "svo-probes": svo, "colorswap": colorswap, "naturalbench": naturalbench, "cola": cola, "mmvp": mmvp,
    "winoground": winoground, "eqben": eqben,
}  # fmt: skip
FOLDERS: dict[str, tuple[Made, float]] = {
    **{f"gate-data: {name}": (partial(data_set, _NAMES.get(name, name), name), 2) for name in GATE.split()},
    **{f"gate-data: {name} of ELEVATER": (partial(data_set, name, "icinw"), 2) for name in ICINW.split()},
    "gate-data: own folders": (runner_own_folders, 10),
    "gate-data: layouts": (runner_layouts, 20),
    **{f"eqben-builder: suite {name}": (partial(suite, name, write), 2) for name, write in _SUITES.items()},
    "eqben-builder: builds": (eqben_build, 3),
    "eqben-builder: journals": (eqben_journal, 10),
    "eqben-builder: forms, votes, videos": (eqben_forms, 5),
    "oven-retrieval: projects": (oven_project, 5),
    "oven-retrieval: arrays of an index": (oven_index, 20),
    "oven-retrieval: cards of models, calibrations": (oven_cards, 10),
    "eevee: selections and items": (eevee_files, 10),
    "gate-runner: captions to fine-tune on": (runner_captioned, 3),
    "gate-runner: configurations": (runner_configurations, 2),
    "gate-runner: heads' tensors": (runner_weights, 3),
    "gate-runner: feature cache": (cached_features, 3),
    "vision-adapters: checkpoints": (training_checkpoint, 3),
    "oven-retrieval: vectors and their index": (oven_vectors, 5),
    "knowledge-prompts: prompts, answers, GLIP, Wiktextract": (knowledge_files, 3),
}
"""Reader -> how its folder is made below a place, and its share of the inputs."""
