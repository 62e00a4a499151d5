"""A folder that holds what the documents' commands name: pictures, tables, encoders, run folders, small models."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[1]
SHAPES = ("circle", "square", "triangle")
BIRDS = ("mallard", "wood duck", "mandarin duck", "barn owl", "snowy owl", "grey heron", "magpie", "goldfinch")
SHORT = "--limit 120"
"""What packs are shortened by."""
GATE = (
    "cifar100", "imagenet1k", "food101", "places365", "fungi", "aircraft", "cubirds", "ucf", "hmdb51", "happy"
)  # fmt: skip
MODELS = """
import torch
from vision_features.encoders import load_encoder


def make():
    return load_encoder("micro-clip")


class Clip:
    encoder = make()

    def encode_image(self, images):
        pictures = torch.stack([torch.as_tensor(image).permute(2, 0, 1) for image in images])
        return self.encoder.encode_image(torch.nn.functional.interpolate(pictures.float(), 64).to(torch.uint8))

    def encode_text(self, texts):
        return self.encoder.encode_text(list(texts))


def clip():
    return Clip()


def texts(device):
    return Clip().encode_text


def p_yes():
    return lambda images, captions: [image.mean() / 255 + len(text) / 100 for image, text in zip(images, captions)]


itm = p_yes


def chat():
    return lambda images, prompt: "1;2"


def gpt2():
    return lambda captions: [-float(len(caption)) for caption in captions]


likelihood = gpt2
"""


def furnish(room: Path) -> None:
    """Make the room; commands that make run folders and heads are run in it."""
    room.mkdir(parents=True)
    data = _tests("gate-runner", "test_originals")
    for folder in ("photographs", "my-images", "my-pictures", "photos", "FOLDER", "DATA/own"):
        for number, name in enumerate(SHAPES):
            for at in range(24):
                shape(room / folder / name / f"{at}.png", name, seed=100 * number + at)
    for folder, names in (
        ("pets", ("Abyssinian", "beagle", "pug")),
        ("synsets", ("n01440764", "n01443537", "n02084071")),
    ):
        for number, name in enumerate(names):
            for at in range(24):
                shape(room / folder / name / f"{at}.png", SHAPES[number], seed=100 * number + at)
    for folder in ("new", "new_photos", "NEW_IMAGES", "images", "pictures", "wiki"):
        for at in range(12):
            shape(room / folder / f"{at}.png", SHAPES[at % 3], seed=at)
    shape(room / "photo.png", "circle", seed=0)
    for folder in ("my-captions", "PAIRS", "."):
        _captions(room / folder)
    for module in ("mylab/models.py", "my_models.py", "my_words.py"):
        (room / module).parent.mkdir(exist_ok=True)
        (room / module).write_text(MODELS)
    for folder in ("data", "DATA"):
        root = room / folder
        root.mkdir(exist_ok=True)
        data.write_cifar(root, archive=False)
        data.write_ade(root)
        _tests("eqben-builder", "test_suites").write_sugarcrepe(root)
        for name in ("images_background_small1.zip", "images_background_small2.zip"):
            archive = ROOT.parent / "shared" / "data" / "omniglot" / name
            if archive.exists():
                (root / "omniglot").mkdir(exist_ok=True)
                shutil.copy(archive, root / "omniglot")
    _entities(room)
    _models(room)
    _outcomes(room)
    (room / "birds.txt").write_text("\n".join(BIRDS) + "\n")
    (room / "specs.txt").write_text("micro-clip\nmicro-clip/random\n")
    (room / "LOC_synset_mapping.txt").write_text(
        "n01440764 tench, Tinca tinca\nn01443537 goldfish, Carassius auratus\nn02084071 dog, domestic dog\n"
    )
    (room / "mine.toml").write_text('["micro-clip"]\nlanguage = "yes"\n')
    (room / "labels-folder.csv").write_text(
        "benchmark,data_sha256,file,label,decision,correction\nfolder,,circle/3.png,circle,accept,square\n"
    )
    (room / "videos").mkdir()
    clip = [Image.new("RGB", (16, 16), colour) for colour in ("black", "white")]
    clip[0].save(room / "clip.gif", save_all=True, append_images=clip[1:], duration=2000)
    (room / "clip.gif").rename(room / "videos" / "abcdefghijk.mkv")  # FFmpeg looks inside
    row = {"timestamp": 2, "prev_timestamp": 0, "next_timestamp": 4, "subject": "a wall"}
    row |= {"status_before": "is black", "status_after": "is white"}
    (room / "boundaries.json").write_text(json.dumps({"abcdefghijk": [row]}))
    shutil.copytree(room / "videos", room / "kinetics")
    shutil.copy(room / "boundaries.json", room / "gebc.json")
    (room / "home").mkdir()
    for command in (
        f"run small {SHORT} --encoder micro-clip --output runs/micro-clip",
        f"run small {SHORT} --encoder micro-clip/random:0 --output runs/micro-clip-random-0",
        f"run small {SHORT} --encoder micro-clip/random:1 --output runs/mine",
        f"run small {SHORT} --encoder micro-clip/random:2 --output runs/other",
        "run micro/cifar100 micro/mini --limit 60 --output runs/frozen",
        f"run digits {SHORT} --encoder micro-clip/random:1 --output runs/mine",
        "run --data photographs --encoder micro-clip --output RUN",
        "run zero-shot-segmentation --encoder micro-dense --limit 4 --output runs/NAME",
        "adapt probe photographs --encoder micro-clip --save HEAD --output runs/probe",
        "finetune my-captions --encoder micro-clip --steps 4 --output runs/tuned",
        *(f"run micro/cifar100 --limit 120 --encoder micro-clip/random:{at} --output items/{at}" for at in range(7)),
        "new FOLDER",
        "eqben build micro pairs --pairs 60",
        "eqben score pairs --encoder micro-clip --save theirs.npz",
        "import six.csv --output of-gate",
        "oven build entities.jsonl --output kb",
        "oven build entities.jsonl --output project",
        "oven build written.jsonl --output written",
    ):
        run(command, room)
    shutil.copytree(room / "pairs", room / "pairs-ag")
    _votes(room)
    shutil.copytree(room / "runs" / "micro-clip", room / "runs" / "micro-clip-limit120")
    shutil.rmtree(room / "runs" / "probe")
    program = str(Path(sys.executable).parent / "eevee")
    runs = sorted(map(str, (room / "items").iterdir()))
    subprocess.run([program, "items", "--outcomes", *runs, "--json", str(room / "chosen.json")], check=True)
    shutil.copytree(room / "RUN", room / "runs" / "RUN")
    shutil.copytree(room / "runs" / "micro-clip-random-0", room / "BEFORE")
    shutil.copytree(room / "runs" / "micro-clip", room / "AFTER")
    shutil.copytree(room / "HEAD", room / "head")


def _votes(room: Path) -> None:
    """A reviewer's file on the pairs, as the review page saves it."""
    from eqben_builder.formats import read_any
    from eqben_builder.pages.review import source_of

    rows = list(read_any(room / "pairs-ag"))
    shown = source_of((row.id, row.caption0, row.caption1) for row in rows)
    votes = {row.id: {"vote": "reject" if at == 3 else "accept"} for at, row in enumerate(rows[:9])}
    record = {"schema": "eqben-votes/1", "source": shown, "reviewer": "me", "votes": votes}
    (room / "votes.json").write_text(json.dumps(record))


def run(command: str, room: Path) -> None:
    """A gate-runner command in the room, which must end well."""
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    program = str(Path(sys.executable).parent / "gate-runner")
    done = subprocess.run(
        [program, *command.split()], cwd=room, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"gate-runner {command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def shape(path: Path, name: str, *, seed: int) -> None:
    """A picture of a shape, its colour, size and place drawn."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    ground, colour = (tuple(int(value) for value in rng.integers(0, 256, 3)) for _ in range(2))
    image = Image.new("RGB", (64, 64), ground)
    left, top, side = (int(rng.integers(*bounds)) for bounds in ((4, 24), (4, 24), (16, 36)))
    box, draw = (left, top, left + side, top + side), ImageDraw.Draw(image)
    if name == "circle":
        draw.ellipse(box, fill=colour)
    elif name == "square":
        draw.rectangle(box, fill=colour)
    else:
        draw.polygon([(left, top + side), (left + side // 2, top), (left + side, top + side)], fill=colour)
    image.save(path)


def _tests(package: str, name: str) -> ModuleType:
    """A module of a package's tests, for the files that it writes."""
    folder = ROOT / "packages" / package / "tests"
    holder = f"tests_of_{package.replace('-', '_')}"
    if holder not in sys.modules:
        sys.modules[holder] = ModuleType(holder)
        sys.modules[holder].__path__ = [str(folder)]
    return importlib.import_module(f"{holder}.{name}")


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _captions(folder: Path) -> None:
    """Sixty pictures and a table of captions that say what is in them."""
    rows = ["image,caption"]
    for at in range(60):
        name = SHAPES[at % 3]
        shape(folder / f"{at}.png", name, seed=at)
        rows.append(f"{at}.png,a {name} of kind {at}")
    (folder / "captions.csv").write_text("\n".join(rows) + "\n")


def _entities(room: Path) -> None:
    """Birds as entities, and the files that a linker and a benchmark are made of."""
    colours = (
        "red",
        "blue",
        "pale",
        "dark",
        "great",
        "little",
        "black",
        "white",
        "common",
        "eastern",
        "alpine",
        "marsh",
    )
    written = _tests("oven-retrieval", "test_generation").NAMES  # those that the small models' tokenizer can write
    names = [*written, *(f"{colour} {bird}" for colour in colours for bird in BIRDS)]
    entities: list[dict[str, Any]] = [
        {"id": f"Q{at}", "name": name, "language": "en", "aliases": {"de": [f"{name}vogel"]}, "category": "bird"}
        for at, name in enumerate(names)
    ]
    _lines(room / "entities.jsonl", entities)
    _lines(room / "written.jsonl", entities[: len(written)])
    _lines(room / "more.jsonl", [{"id": "Q900", "name": "long-tailed tit", "language": "en"}])
    (room / "names.txt").write_text("red mallard\nblue magpye\nnothing like it\n")
    known = [{"name": entity["name"], "entity_id": entity["id"]} for entity in entities]
    _lines(
        room / "labelled.jsonl", known + [{"name": f"red kettle of kind {at}", "entity_id": None} for at in range(96)]
    )
    questions = [
        {
            "data_id": f"d{at}", "image_id": str(at % 12), "question": f"what bird is {at}?",
            "entity_id": f"Q{at // 4}", "entity_text": names[at // 4],
            "data_split": "val_seen" if at % 2 else "val_unseen",
        }
        for at in range(32)
    ]  # fmt: skip
    for name in ("train", "val", "ref", "questions"):
        _lines(room / f"{name}.jsonl", questions)
    _lines(room / "answers.jsonl", [{"data_id": f"d{at}", "pred_entity_id": f"Q{at // 4}"} for at in range(32)])
    _lines(room / "labels.jsonl", [{"image_id": str(at), "label": names[at], "category": "bird"} for at in range(12)])


def _models(room: Path) -> None:
    """Random weights of small models in their libraries' own files."""
    import timm
    import transformers
    from safetensors.torch import save_file

    save_file(timm.create_model("resnet18").state_dict(), room / "weights.safetensors")
    save_file(timm.create_model("vit_small_patch16_224").state_dict(), room / "w.safetensors")

    tests = _tests("oven-retrieval", "test_generator_training")
    model, tokenizer = tests.make_parts("llava")
    for name in ("MODEL", "path/to/model"):
        model.save_pretrained(room / name)
        tokenizer.save_pretrained(room / name)
    transformers.logging.set_verbosity_error()


def _outcomes(room: Path) -> None:
    """Other tools' scores and outcomes of items."""
    import joblib

    rng = np.random.default_rng(0)
    table = (rng.random((12, 60)) < np.linspace(0.3, 0.8, 12)[:, None]).astype(float)
    (room / "scores").mkdir()
    joblib.dump(table, room / "scores" / "musr.jbl")
    joblib.dump([f"lab/{at}" for at in range(12)], room / "scores" / "musr_models.jbl")
    _tests("eevee", "test_published_items").unibench(room / "unibench", table)
    importing = _tests("gate-runner", "test_importing")
    rows = importing.BUILT + "0.9,0.99,0.9,vtab/pets,ViT-L-14,openai,zeroshot_classification,,,,ViT-L-14 openai\n"
    for model in range(6):
        for at, name in enumerate(GATE):
            score = round(0.3 + 0.05 * model + 0.02 * at + 0.05 * float(rng.random()), 3)
            rows += f"{score},,,{name},model-{model},,zeroshot_classification,,,,model-{model}\n"
    (room / "benchmark.csv").write_text(rows)
    (room / "six.csv").write_text(importing.HEAD + "".join(line for line in rows.splitlines(True) if "model-" in line))
    (room / "results").mkdir()
    (room / "results" / "probe.json").write_text(json.dumps(importing.PROBED))
