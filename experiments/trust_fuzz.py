"""A million mutated files for all readers of strangers' files: an answer or a ValueError, within time and memory.

    python experiments/trust_fuzz.py [--inputs 1000000] [--seed 0] [--only pictures]

Whole files are mutated (bytes replaced, cut, doubled, inserted, or spliced from another, numbers and texts replaced by
values of another kind or size, one to eight times) and read in a child process for each reader that may take at most
1 GB of address space more than it starts with. Anything but an answer or an error that a caller can be expected to
catch (ValueError, or FileNotFoundError, whose message is one line that names the file), two seconds of processor time
for one input, or the child's death is a finding: it is printed with its number, kept, and makes the exit status 1. The
result is written after each reader; `--go-on` leaves out readers that the output already has with the same number and
seed, and no findings; with `--only`, others stay as they are there.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import math
import multiprocessing
import os
import pickle
import platform
import random
import re
import resource
import shutil
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from trust_fuzz_folders import FOLDERS, unclear

RESULTS = Path(__file__).parent / "results"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
PLACE = Path(MEMORY) / f"fuzz-{os.environ.setdefault('FUZZ', str(os.getpid()))}"
"""In memory where there is such a place; the children's name for it is their parent's."""
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of a parent are not there in its forked children
SLOW, ROOM = 2.0, 1 << 30

Read = Callable[[bytes], object]
Made = Callable[[], tuple[list[bytes], Read]]


def in_file(name: str, read: Callable[[Path], object]) -> Read:
    def parse(content: bytes) -> object:
        path = PLACE / name
        path.write_bytes(content)
        return read(path)

    return parse


def drained(read: Callable[[Path], Any]) -> Callable[[Path], object]:
    return lambda path: list(read(path))


def picture(form: str, mode: str, size: tuple[int, int] = (9, 7)) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    file = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(noise[..., 0].astype(np.uint16) * 257).save(file, form)
    else:
        Image.fromarray(noise).convert(mode).save(file, form)
    return file.getvalue()


def pictures() -> list[bytes]:
    kinds = "PNG RGB, PNG RGBA, PNG P, PNG I;16, JPEG RGB, JPEG CMYK, TIFF RGB, TIFF I;16, GIF P, WEBP RGB, BMP RGB"
    return [picture(*kind.split()) for kind in kinds.split(", ")]


def packed_pictures() -> tuple[list[bytes], Read]:
    """Formats whose libraries are the youngest: AVIF, HEIC, and TIFF in strips of JPEG and of LZW."""
    from gate_data.readers.decode import FORMATS, decode, open_picture

    wholes = [picture("TIFF", "RGB", (70, 50))]
    for packing in ("jpeg", "tiff_lzw", "tiff_deflate"):
        file = io.BytesIO()
        Image.open(io.BytesIO(wholes[0])).save(file, "TIFF", compression=packing)
        wholes.append(file.getvalue())
    open_picture("", wholes[0])  # by which Pillow can write HEIC, too
    wholes += [picture(form, "RGB", (70, 50)) for form in ("AVIF", "HEIF") if form in FORMATS]
    return wholes, in_file("a.packed", lambda path: decode(str(path), 8))


def pickled() -> list[bytes]:
    batch = {
        "data": np.arange(96, dtype=np.uint8).reshape(2, 48),
        "fine_labels": list(range(20)),
        "v/1.png": {"bbox": np.arange(8, dtype=np.float32).reshape(2, 4), "size": (480, 270), "visible": True},
        "other": {"big": np.arange(3, dtype=">i4"), "one": np.float32(1), "none": None, "bytes": b"\xff"},
    }
    return [pickle.dumps(batch, protocol) for protocol in range(6)]


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table(*rows: list[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.png", pictures()[0])
        archive.writestr("c.txt", b"text" * 50)
    return file.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def saved(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def pickles_of_strangers() -> tuple[list[bytes], Read]:
    from wary_files import pickles

    return pickled(), lambda content: pickles.load(content, "fuzz")


def runner_pictures() -> tuple[list[bytes], Read]:
    from gate_data.readers.decode import decode

    return pictures(), in_file("a.picture", lambda path: decode(str(path), 8))


def eqben_pictures() -> tuple[list[bytes], Read]:
    from eqben_builder.pictures import decode

    return pictures(), lambda content: decode(content, "fuzz")


def oven_pictures() -> tuple[list[bytes], Read]:
    from oven_retrieval.generation.answers import _open

    return pictures(), in_file("a.picture", _open)


def class_maps() -> tuple[list[bytes], Read]:
    from gate_data.readers import ClassMap

    kind = ClassMap({value: value for value in range(256)})
    return [picture("PNG", "L"), picture("PNG", "P")], in_file("a.png", lambda path: kind.read(str(path), 8))


def runner_csv() -> tuple[list[bytes], Read]:
    from gate_data.readers import table as rows

    def read(path: Path) -> object:
        return [(row.text("image"), row.integer("level", 0, 9)) for row in rows(path, ("image", "level"))]

    wholes = [table(["image", "level"], ["a.png", 1], ["b ä.png", 2]), b"image\tlevel\na\t1\nb\t2\n"]
    return wholes, in_file("a.csv", read)


def runner_jsonl() -> tuple[list[bytes], Read]:
    from gate_data.readers import table as rows

    def read(path: Path) -> object:
        return [(row.text("path"), row.number("value")) for row in rows(path, ("path", "value"))]

    return [lines({"path": "a", "value": 1.5}, {"path": "ä", "value": 2})], in_file("a.jsonl", read)


def runner_parquet() -> tuple[list[bytes], Read]:
    import pyarrow
    import pyarrow.parquet

    from gate_data.readers import table as rows

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a", "b"], "label": ["x", "y"]}), file)

    def read(path: Path) -> object:
        return [row.text("label") for row in rows(path, ("path", "label"))]

    return [file.getvalue()], in_file("a.parquet", read)


def runner_boxes() -> tuple[list[bytes], Read]:
    from gate_data.boxes.files import read_coco

    (PLACE / "a.jpg").write_bytes(picture("JPEG", "RGB"))
    whole = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 9, "height": 7}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 0, "area": 12}],
    }
    return [json.dumps(whole).encode()], in_file("a.json", read_coco)


def runner_voc() -> tuple[list[bytes], Read]:
    from gate_data.boxes.files import voc

    content = (
        b"<annotation><filename>a.jpg</filename><size><width>9</width><height>7</height><depth>3</depth></size>"
        b"<object><name>cat</name><difficult>0</difficult><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax>"
        b"<ymax>5</ymax></bndbox></object></annotation>"
    )
    return [content], in_file("a.xml", voc)


def runner_matlab() -> tuple[list[bytes], Read]:
    import scipy.io

    from gate_data.readers.arrays import read_matlab

    wholes = []
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = np.arange(3), "abc"
    for packed in (False, True):
        file = io.BytesIO()
        scipy.io.savemat(file, {"m": np.arange(12).reshape(3, 4)}, do_compression=packed)
        wholes.append(file.getvalue())
        file = io.BytesIO()
        scipy.io.savemat(file, {"m": {"a": cell, "t": "text", "z": np.array([1 + 2j])}}, do_compression=packed)
        wholes.append(file.getvalue())
    return wholes, in_file("a.mat", lambda path: read_matlab(str(path), "m"))


def runner_toml() -> tuple[list[bytes], Read]:
    from gate_data.own.reading import read_benchmark

    content = b'[benchmark]\nid = "birds"\ntask = "image-classification"\n[data]\nkind = "table"\ntable = "a.csv"\n'
    return [content], in_file("mine.toml", read_benchmark)


def runner_zip() -> tuple[list[bytes], Read]:
    from wary_files import archives

    number = iter(range(10**9))

    def parse(content: bytes) -> object:
        path = PLACE / f"{next(number) % 100}.zip"
        path.write_bytes(content)
        os.utime(path, ns=(0, next(number)))
        return [archives.read(path, name) for name in archives.members(path)]

    return [zipped()], parse


def runner_tar() -> tuple[list[bytes], Read]:
    from wary_files import archives

    number = iter(range(10**9))

    def parse(content: bytes) -> object:
        path = PLACE / f"{next(number) % 100}.tar"
        path.write_bytes(content)
        os.utime(path, ns=(0, next(number)))
        return [archives.read(path, name) for name in archives.members(path)]

    return [tarred(("a.png", pictures()[0]), ("b/c.txt", b"text"))], parse


def runner_results() -> tuple[list[bytes], Read]:
    from gate_runner.runs.results import Result
    from gate_runner.tasks.job import Score

    scores = (Score("acc@1", "higher", 0.5, 0.4, 0.6, 0.1),)
    result = Result("digits", "digits", "image-classification", "built-in", 0, "ok", scores=scores)
    return [result.to_json().encode()], in_file("a.json", Result.from_file)


def runner_samples() -> tuple[list[bytes], Read]:
    from gate_runner.runs.folder import read_samples

    return [saved(outcomes=np.linspace(0, 1, 50))], in_file("a.npz", read_samples)


def runner_manifest() -> tuple[list[bytes], Read]:
    from gate_runner.runs.folder import RunFolder

    identity = {"encoder": {"spec": "micro-clip"}, "outputs": {"device": "cpu", "image": [1.0, 2.0]}, "limit": None}
    whole = {"schema": "gate-runner/manifest/3", "identity": identity, "runs": [{"command": []}]}
    return [json.dumps(whole).encode()], in_file("manifest.json", lambda path: RunFolder(path.parent).check(identity))


def adapter_table() -> tuple[list[bytes], Read]:
    from gate_data.own import OwnBenchmark, guess, originals_from

    def read(path: Path) -> object:
        own = OwnBenchmark.model_validate(guess(path).values)
        originals = originals_from(own, path.parent / "benchmark.toml")
        assert originals.parts is not None
        return originals.parts(path.parent)

    for name in "abcd":
        (PLACE / f"{name}.png").write_bytes(b"")
    rows = [["path", "label"], ["a.png", "x"], ["b.png", "y"], ["c.png", "x"], ["d.png", "y"]]
    return [table(*rows)], in_file("t.csv", read)


def oven_jsonl() -> tuple[list[bytes], Read]:
    from oven_retrieval.readers import read_jsonl, read_wiki6m

    wiki = {"wikidata_id": "Q31", "wikipedia_title": "Belgium", "wikipedia_summary": "A country", "x": None}
    own = {"id": "Q1", "name": "Wood", "aliases": ["ä", "b"], "popularity": 2.5}

    def read(path: Path) -> object:
        return [list((read_wiki6m if b"wikidata" in path.read_bytes() else read_jsonl)(path))]

    return [lines(wiki, wiki), lines(own, {**own, "aliases": "a|b"})], in_file("a.jsonl", read)


def oven_packed() -> tuple[list[bytes], Read]:
    from oven_retrieval.readers import read_jsonl

    return [gzip.compress(lines({"id": "Q1", "name": "Wood"}))], in_file("a.jsonl.gz", drained(read_jsonl))


def oven_csv() -> tuple[list[bytes], Read]:
    from oven_retrieval.readers import read_csv

    return [table(["id", "name", "aliases"], ["Q1", "Wood", "a|b"], ["Q2", "ä, b", ""])], in_file(
        "a.csv", drained(read_csv)
    )


def oven_wikidata() -> tuple[list[bytes], Read]:
    from oven_retrieval.wikidata import WikidataDump

    label = {"en": {"language": "en", "value": "Belgium"}}
    item = {"id": "Q31", "labels": label, "aliases": {"en": [{"language": "en", "value": "BE"}]}, "descriptions": label,
           "claims": {"P31": [{"mainsnak": {"datavalue": {"value": {"id": "Q6256"}}}}]}, "sitelinks": {}}  # fmt: skip
    content = b"[\n" + json.dumps(item).encode() + b",\n" + json.dumps({**item, "id": "Q32"}).encode() + b"\n]\n"
    return [content], in_file("a.json", drained(WikidataDump))


def oven_questions() -> tuple[list[bytes], Read]:
    from oven_retrieval.evaluation.files import read_predictions, read_references

    reference = {"data_id": "1", "image_id": "i", "question": "what?", "entity_id": "Q1", "entity_text": "a",
                 "data_split": "val_seen"}  # fmt: skip
    answer = {"data_id": "1", "pred_entity_id": "Q1", "score": 0.5}

    def read(path: Path) -> object:
        return (read_predictions if b"pred_entity_id" in path.read_bytes() else read_references)(path)

    return [lines(reference), lines(answer)], in_file("a.jsonl", read)


def oven_base() -> tuple[list[bytes], Read]:
    from oven_retrieval import Entity, KnowledgeBase, build_kb

    kb = build_kb([Entity("Q1", "Wood", aliases=("a",)), Entity("Q2", "Duck")], PLACE / "kb", overwrite=True)
    manifest = kb.path / "manifest.json"
    whole = manifest.read_bytes()

    def parse(content: bytes) -> object:
        manifest.write_bytes(content)
        return list(KnowledgeBase(kb.path))

    return [whole], parse


def eevee_table() -> tuple[list[bytes], Read]:
    from eevee.tables.loading import load_table

    rows = [["model", "a", "b", "c", "d"], *[[f"m{i}", i, i * 2.5, 3 - i, i * i] for i in range(6)]]
    return [table(*rows)], in_file("t.csv", lambda path: load_table(path, direction="higher"))


def eevee_outcomes() -> tuple[list[bytes], Read]:
    from eevee.items.reading import read_outcomes

    values = (np.random.default_rng(0).random((6, 24)) < 0.5).astype(float)
    whole = saved(digits=values, models=np.array(list("abcdef")))
    return [whole], in_file("o.npz", lambda path: read_outcomes([path]))


def knowledge_external() -> tuple[list[bytes], Read]:
    from knowledge_prompts.sources.elevater_files import read_external, read_gpt3

    external = [{"classname": "owl", "def_wiki": "A bird.", "path_wn": ["owl", "bird"], "def_wn": "x", "gpt3": []}]
    gpt3 = [{"classname": "owl", "gpt3": ["A bird.", "It flies."]}]

    def read(path: Path) -> object:
        return (read_external if b"def_wiki" in path.read_bytes() else read_gpt3)(path)

    return [json.dumps(external).encode(), json.dumps(gpt3).encode()], in_file("k.json", read)


def knowledge_texts() -> tuple[list[bytes], Read]:
    from knowledge_prompts.sources.named_texts import read_named_texts

    return [json.dumps({"owl": ["A bird.", "ä"], "hen": ["b"]}).encode()], in_file("t.json", read_named_texts)


def eqben_json() -> tuple[list[bytes], Read]:
    from eqben_builder.untrusted import json_lines
    from wary_files.json_files import read_json

    def read(path: Path) -> object:
        return read_json(path), list(json_lines(path))

    return [json.dumps({"0": {"filename": "1.jpg", "caption": "ä", "n": [1, 2.5, None]}}).encode()], in_file(
        "a.json", read
    )


def eqben_scores() -> tuple[list[bytes], Read]:
    from eqben_builder.scoring import read_scores

    return [b"id,c0_i0,c0_i1,c1_i0,c1_i1\na,1,2,3,4\nb,1,2,3,4\n"], in_file("s.csv", read_scores)


def eqben_arrays() -> tuple[list[bytes], Read]:
    from eqben_builder.pictures import decode_array

    file = io.BytesIO()
    np.save(file, np.zeros((4, 5, 3), np.uint8))
    return [file.getvalue()], lambda content: decode_array(content, "fuzz")


def runner_hdf5() -> tuple[list[bytes], Read]:
    import h5py

    from gate_data.readers import arrays

    wholes = []
    for how in ({}, {"compression": "gzip", "chunks": (1, 4, 4)}):
        file = io.BytesIO()
        with h5py.File(file, "w") as hdf5:
            hdf5.create_dataset("x", data=np.arange(48, dtype=np.uint8).reshape(3, 4, 4), **how)
            hdf5["link"] = h5py.SoftLink("/x")
        wholes.append(file.getvalue())

    number = iter(range(10**9))

    def parse(content: bytes) -> object:
        path = PLACE / f"{next(number) % 100}.h5"
        path.write_bytes(content)
        os.utime(path, ns=(0, next(number)))  # handles stay open while a file does not change
        return [arrays.stored_array(arrays.Stored(str(path), "x", row)) for row in range(3)]

    return wholes, parse


def runner_nifti() -> tuple[list[bytes], Read]:
    import nibabel

    from gate_data.readers.nifti import volume

    whole = nibabel.Nifti1Image(np.arange(60, dtype=np.int16).reshape(3, 4, 5), np.eye(4)).to_bytes()

    def parse(content: bytes) -> object:
        path = PLACE / ("a.nii.gz" if content[:2] == b"\x1f\x8b" else "a.nii")
        path.write_bytes(content)
        return volume(path)

    return [whole, gzip.compress(whole)], parse


def runner_dicom() -> tuple[list[bytes], Read]:
    """A picture of 12 bits in its window, and one that is packed as JPEG."""
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.uid import UID, SecondaryCaptureImageStorage

    from gate_data.readers.decode import decode

    window = {"WindowCenter": "40", "WindowWidth": "400", "RescaleSlope": "1", "RescaleIntercept": "-9"}
    eight = {"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7, "PixelData": encapsulate([picture("JPEG", "L")])}
    wholes = []
    for syntax, fields in (("1.2.840.10008.1.2.1", window), ("1.2.840.10008.1.2.4.50", eight)):
        meta = FileMetaDataset()
        meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = UID(syntax), SecondaryCaptureImageStorage
        meta.MediaStorageSOPInstanceUID = UID("1.2.3")
        content = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        about = {"Rows": 7, "Columns": 9, "SamplesPerPixel": 1, "BitsAllocated": 16, "BitsStored": 12, "HighBit": 11,
                 "PixelRepresentation": 0, "PhotometricInterpretation": "MONOCHROME2",
                 "PixelData": np.arange(63, dtype=np.uint16).tobytes(), **fields}  # fmt: skip
        for name, value in about.items():
            setattr(content, name, value)
        content["PixelData"].is_undefined_length = fields is eight
        file = io.BytesIO()
        pydicom.dcmwrite(file, content, enforce_file_format=True)
        wholes.append(file.getvalue())
    return wholes, in_file("a.dcm", lambda path: decode(str(path), 8))


def runner_captions() -> tuple[list[bytes], Read]:
    from gate_data.readers.captions import coco_captions

    whole = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "A cat."}]}
    return [json.dumps(whole).encode()], in_file("a.json", drained(coco_captions))


def signed(content: bytes) -> bytes:
    """A result with the digest of what it says, as anyone can compute it; other bytes as they are."""
    try:
        record = json.loads(content)
        record.pop("digest")
        record["digest"] = hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode()).hexdigest()
        return json.dumps(record).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return content


def runner_folders() -> tuple[list[bytes], Read]:
    """A whole run folder, of which the result or the manifest is mutated: read, reported, and exported."""
    from gate_runner.exporting.model_card import means
    from gate_runner.reports.contents import gather
    from gate_runner.reports.forms import as_markdown
    from gate_runner.runs.folder import RunFolder
    from gate_runner.runs.results import SCHEMA, Result
    from gate_runner.runs.stored import read_runs
    from gate_runner.tasks.job import Score

    scores = (Score("acc@1", "higher", 0.5, 0.4, 0.6, 0.1),)
    digits_result = Result("digits", "digits", "image-classification", "built-in", 0, "ok", scores=scores,
                  data={"test": 50, "classes": 10, "sha256": "a"}, seconds={"total": 2.0}, memory={"peak_bytes": 5},
                  training={"steps": 100, "chosen_step": 50, "validation": [{"step": 50, "acc@1": 0.5}]},
                  energy={"joules": {}, "unmeasured": {"cpu": "none"}}, encoder={"spec": "a"})  # fmt: skip
    folder = RunFolder(PLACE / "run")
    folder.claim({"encoder": {"spec": "a", "parameters": 5}, "limit": None, "schema": SCHEMA}, {"command": ["x"]})
    folder.save(digits_result, np.linspace(0, 1, 50).round())
    result, manifest = folder.result_file("digits", 0), folder.path / "manifest.json"
    wholes = [result.read_bytes(), manifest.read_bytes()]

    def parse(content: bytes) -> object:
        is_result = b"gate-runner/manifest" not in content
        result.write_bytes(signed(content) if is_result else wholes[0])
        manifest.write_bytes(wholes[1] if is_result else content)
        runs = read_runs([folder.path])
        return as_markdown(gather(runs, tests=False)), [means(run) for run in runs]

    return wholes, parse


def runner_heads() -> tuple[list[bytes], Read]:
    """The card of a saved head, with the digest of what it says."""
    import torch

    from vision_adapters.heads import LinearHead
    from vision_adapters.saved import card_digest
    from vision_features.encoders import load_encoder
    from vision_features.heads.saved import KeptHead, load_head, save_head

    encoder, folder = load_encoder("micro-clip/random", device="cpu"), PLACE / "head"
    about = {"method": "logistic", "classes": ["cat", "dog"]}
    save_head(KeptHead(LinearHead(128, 2), "projected"), encoder, folder, about, start=encoder.fingerprint())
    card = folder / "card.json"

    def parse(content: bytes) -> object:
        try:
            values = json.loads(content)
            values["digest"] = card_digest(values)
            content = json.dumps(values).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        card.write_bytes(content)
        with torch.no_grad():
            head = load_head(folder, encoder=encoder)
            return head.module(torch.zeros(1, 128)), head.classes

    return [card.read_bytes()], parse


def runner_tuned() -> tuple[list[bytes], Read]:
    """The card of a trained encoder."""
    from vision_features.encoders import load_encoder
    from vision_features.encoders.tuned import load_tuned, save_tuned

    encoder, folder = load_encoder("micro-clip/random", device="cpu"), PLACE / "tuned"
    assert encoder.module is not None
    start = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    save_tuned(encoder, start, folder, {"trained": {"tune": "full", "seed": 0}, "data": {"benchmark": "digits"}})
    card = next(folder.glob("*.json"))
    whole = card.read_bytes()

    def parse(content: bytes) -> object:
        card.write_bytes(content)
        return load_tuned(folder, encoder)

    return [whole], parse


def runner_recipes() -> tuple[list[bytes], Read]:
    """A recipe's file, as far as the recipe that a training takes."""
    from gate_runner.settings import Settings
    from gate_runner.tasks.recipes import recipe_for
    from vision_features.encoders import load_encoder

    module = load_encoder("micro-clip/random", device="cpu").module
    content = b'base = "gate"\nlr = 1e-4\nsteps = 100\nbatch_size = 8\nweight_decay = 0.01\nschedule = "cosine"\n'

    def read(path: Path) -> object:
        return recipe_for(Settings(tune="full", recipe=str(path)), module, "image-classification")

    return [content], in_file("mine.toml", read)


READERS: dict[str, tuple[Made, float]] = {
    "gate-runner: HDF5": (runner_hdf5, 10),
    "gate-runner: NIfTI": (runner_nifti, 10),
    "gate-runner: DICOM": (runner_dicom, 10),
    "gate-runner: COCO captions": (runner_captions, 20),
    "gate-runner: run folders": (runner_folders, 10),
    "gate-runner: heads' cards": (runner_heads, 15),
    "gate-runner: trained encoders' cards": (runner_tuned, 10),
    "gate-runner: recipes": (runner_recipes, 20),
    "wary-files: pickles": (pickles_of_strangers, 310),
    "gate-runner: pictures": (runner_pictures, 60),
    "gate-runner: AVIF, HEIC, packed TIFF": (packed_pictures, 10),
    "eqben-builder: pictures": (eqben_pictures, 60),
    "oven-retrieval: pictures": (oven_pictures, 30),
    "gate-runner: class maps": (class_maps, 15),
    "gate-runner: CSV and TSV": (runner_csv, 50),
    "gate-runner: JSONL": (runner_jsonl, 50),
    "gate-runner: Parquet": (runner_parquet, 10),
    "gate-runner: COCO boxes": (runner_boxes, 20),
    "gate-runner: VOC boxes": (runner_voc, 20),
    "gate-runner: MATLAB": (runner_matlab, 10),
    "gate-runner: TOML": (runner_toml, 20),
    "gate-runner: zip": (runner_zip, 10),
    "gate-runner: tar": (runner_tar, 10),
    "gate-runner: results": (runner_results, 30),
    "gate-runner: outcomes": (runner_samples, 10),
    "gate-runner: manifest": (runner_manifest, 30),
    "gate-runner: own images": (adapter_table, 10),
    "oven-retrieval: JSONL": (oven_jsonl, 40),
    "oven-retrieval: packed JSONL": (oven_packed, 10),
    "oven-retrieval: CSV": (oven_csv, 30),
    "oven-retrieval: Wikidata": (oven_wikidata, 30),
    "oven-retrieval: questions and answers": (oven_questions, 20),
    "oven-retrieval: manifest": (oven_base, 10),
    "eevee: tables": (eevee_table, 15),
    "eevee: outcomes": (eevee_outcomes, 5),
    "knowledge-prompts: knowledge files": (knowledge_external, 15),
    "knowledge-prompts: named texts": (knowledge_texts, 10),
    "eqben-builder: JSON": (eqben_json, 10),
    "eqben-builder: scores": (eqben_scores, 5),
    "eqben-builder: arrays": (eqben_arrays, 13),
    **{name: (partial(make, PLACE), share) for name, (make, share) in FOLDERS.items()},
}
"""Reader -> how it is made, and its share of the inputs."""


VALUE = re.compile(rb'-?\d+(?:\.\d+)?|"[^"\\]*"(?!\s*:)|\[[^][]*\]|\{[^{}]*\}')
OTHERS = b'-1 0 1e400 -1e400 1.5 NaN null true [] {} [[]] [null] {"a":1} "" "x" ".." 99999999999999999999'.split()
OTHERS += [b"1" + b"0" * 400, b"1" * 5000]


def mutated(rng: random.Random, wholes: list[bytes]) -> bytes:
    content = bytearray(rng.choice(wholes))
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(6):
            case 5:
                places = [value.span() for value in VALUE.finditer(content)] or [(at, at)]
                start, end = rng.choice(places)
                content[start:end] = rng.choice(OTHERS)
            case 0 if at < len(content):
                content[at] = rng.randrange(256)
            case 1:
                del content[at : at + rng.randint(1, 16)]
            case 2:
                content[at:at] = content[at : at + rng.randint(1, 16)]
            case 3:
                content[at:at] = rng.randbytes(rng.randint(1, 6))
            case _:
                other = rng.choice(wholes)
                start = rng.randrange(len(other))
                content[at:at] = other[start : start + rng.randint(1, 40)]
    return bytes(content)


def address_space() -> int:
    """Bytes of address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def work(name: str, inputs: int, seed: int, messages: Any) -> None:
    warnings.simplefilter("ignore")
    PLACE.mkdir(exist_ok=True)
    make, _ = READERS[name]
    wholes, read = make()
    for whole in wholes:
        read(whole)  # what is whole is read
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + ROOM, address_space() + ROOM))
    rng = random.Random(f"{name} {seed}")
    refused, slowest, findings = 0, 0.0, []
    begun = time.process_time()
    for number in range(inputs):
        content = mutated(rng, wholes)
        (PLACE / "now").write_bytes(content)  # of a child that dies
        start = time.process_time()
        try:
            read(content)
        except (ValueError, FileNotFoundError) as error:
            refused += 1
            if wrong := unclear(error):
                findings.append((number, wrong, content))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
            findings.append((number, f"{type(error).__name__}: {error}"[:300], content))
            if len(findings) == 5:
                break
        took = time.process_time() - start
        slowest = max(slowest, took)
        if took > SLOW:
            findings.append((number, f"took {took:.1f} s", content))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    messages.put((number + 1, refused, slowest, time.process_time() - begun, grown, findings))


def keep(readers: dict[str, dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """What was found until now; written, but for a part of the readers that is not gone on with."""
    sums = {key: sum(counts[key] for counts in readers.values()) for key in ("inputs", "refused", "findings")}
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    result = {**sums, "seed": options.seed, "readers": readers, **machine}
    if options.go_on or not options.only:
        options.output.parent.mkdir(exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="readers whose name holds this")
    parser.add_argument("--output", type=Path, default=RESULTS / "trust_fuzz.json")
    parser.add_argument("--go-on", action="store_true", help="leave out readers that the output has already")
    options = parser.parse_args()
    total = sum(share for _, share in READERS.values())
    collected: dict[str, dict[str, Any]] = {}
    if options.go_on and options.output.exists():
        before = json.loads(options.output.read_text())
        if before["seed"] == options.seed:
            collected = {name: counts for name, counts in before["readers"].items() if not counts["findings"]}
    forked = multiprocessing.get_context("fork")
    PLACE.mkdir(exist_ok=True)
    for make in (make for name, (make, _) in READERS.items() if options.only in name):
        make()  # what this process has imported, its children need not
    for name, (_, share) in READERS.items():
        if options.only not in name:
            continue
        queue = forked.SimpleQueue()
        count = math.ceil(options.inputs * share / total)
        if collected.get(name, {"inputs": 0})["inputs"] == count:
            continue
        process = forked.Process(target=work, args=(name, count, options.seed, queue))
        process.start()
        while process.is_alive() and queue.empty():  # many findings fill the pipe, and the child waits until it is read
            process.join(0.05)
        if queue.empty():
            path = Path(tempfile.gettempdir()) / f"finding-{list(READERS).index(name)}"
            shutil.copy(PLACE / "now", path)
            print(f"{name}: the child ended with {process.exitcode}; its input is {path}", flush=True)
            collected[name] = {"inputs": 0, "refused": 0, "findings": 1}
            keep(collected, options)
            continue
        done, refused, slowest, seconds, grown, findings = queue.get()
        process.join()
        for number, what, content in findings:
            print(f"{name}, input {number}: {what}\n  {content[:200]!r}", flush=True)
        collected[name] = {
            "inputs": done,
            "refused": refused,
            "findings": len(findings),
            "cpu_seconds": round(seconds, 1),
            "slowest_cpu_seconds": round(slowest, 3),
            "grown_megabytes": grown,
        }
        print(f"{name}: {collected[name]}", flush=True)
        keep(collected, options)
    result = keep(collected, options)
    print(json.dumps({key: value for key, value in result.items() if key != "readers"}))
    return 1 if result["findings"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
