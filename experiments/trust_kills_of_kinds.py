"""Thirty kills of each kind of writer at random moments: nothing is lost, and the end is that of an undisturbed one.

    python experiments/trust_kills_of_kinds.py [--kills 30] [--only oven] [--seed 0]

Each kind of work (runs, trainings, saves over an old head, copies from the hub, features, builds, edits, searches)
runs once undisturbed. Then the same work begins in another folder and is killed with SIGKILL at a random moment, drawn
evenly over the time that it took; what lies there is looked at in a process of its own (the old state or the new one,
whole); and the same work begins again, to be killed again. Where it came through before its moment, and after every
third kill, it runs to its end, what lies there is compared with the undisturbed, the names of all files too, and
another folder is begun. The result is written after each kind; `--go-on` leaves out those that the output already has.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm
from trust_kills import RESULTS
from trust_kills import content as content_of_run

SAID = Path(tempfile.gettempdir()) / "trust_kills_of_kinds.log"
"""What the processes print, for whoever looks into a fault."""
PACKAGES = Path(__file__).parents[1] / "packages"


def files(folder: Path) -> dict[str, bytes]:
    """Names and bytes of everything that lies in a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names_left(folder: Path) -> Counter[str]:
    """Count the files of a folder by their names, in which a digest or a random part is one sign."""
    return Counter(re.sub(r"[0-9a-f]{8,}", "#", name) for name in files(folder))


@dataclass(frozen=True)
class Kind:
    """A kind of writer.

    Args:
        work: what is killed, in a folder of its own, which is there.
        content: what has to be the same in the end.
        begin: makes a folder's first state.
        look: raises where what lies there after a kill is neither the old state nor the new one.
    """

    work: Callable[[Path], object]
    content: Callable[[Path], Any]
    begin: Callable[[Path], object] = lambda folder: None
    look: Callable[[Path], object] = lambda folder: None


def gate_runner(*words: object) -> None:
    """A command of the runner; it ends with 0."""
    from gate_runner.cli import main

    try:
        main([str(word) for word in words])
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"{words}: ended with {ended.code}") from ended


def photos(root: Path) -> Path:
    """Noise of three colours, in a folder of classes."""
    folder, draw = root / "photos", np.random.default_rng(0)
    for colour in range(3):
        (folder / "rgb"[colour]).mkdir(parents=True)
        for number in range(12):
            pixels = draw.integers(0, 256, (16, 16, 3)).astype(np.uint8)
            pixels[..., colour] = 255 - pixels[..., colour] // 4
            Image.fromarray(pixels).save(folder / "rgb"[colour] / f"{number}.png")
    return folder


def runs(root: Path) -> Kind:
    """Two seeds of a probe."""
    words = ("run", "digits", "--encoder", "micro-clip/random", "--limit", 40, "--seed", 0, "--seed", 1, "--output")
    return Kind(lambda folder: gate_runner(*words, folder / "run"), lambda folder: content_of_run(folder / "run"))


def trained_runs(root: Path) -> Kind:
    """A trained encoder, which is kept."""
    words = ("run", "digits", "--encoder", "micro-clip/random", "--limit", 40, "--tune", "bias", "--set", "steps=8",
             "--setting", "save_encoders=true", "--output")  # fmt: skip

    def content(folder: Path) -> object:
        weights = {name: data for name, data in files(folder).items() if name.endswith(".safetensors")}
        return content_of_run(folder / "run"), weights

    return Kind(lambda folder: gate_runner(*words, folder / "run"), content)


def finetunings(root: Path) -> Kind:
    """`adapt finetune` on a folder of pictures; its head is copied to a place of its own."""
    from vision_features.heads import load_head

    pictures = photos(root)

    def work(folder: Path) -> None:
        how = ("--encoder", "micro-clip/random", "--tune", "bias", "--set", "steps=8")
        gate_runner("adapt", "finetune", pictures, *how, "--output", folder / "run", "--save", folder / "head")

    def look(folder: Path) -> None:
        if (folder / "head").exists():
            load_head(folder / "head")

    return Kind(work, lambda folder: files(folder / "head")["head.safetensors"], look=look)


def saved_heads(root: Path) -> Kind:
    """A head over an old one: of both, one is there and whole."""
    from vision_adapters.heads import LinearHead
    from vision_features.encoders import load_encoder
    from vision_features.heads.saved import KeptHead, load_head, save_head

    encoder = load_encoder("micro-clip/random", device="cpu")

    def save(folder: Path, value: float, classes: list[str]) -> None:
        head = LinearHead(128, len(classes))
        torch.nn.init.constant_(next(head.parameters()), value)
        about = {"method": "logistic", "classes": classes}
        save_head(KeptHead(head, "projected"), encoder, folder / "head", about, start=encoder.fingerprint())

    def look(folder: Path) -> None:
        head = load_head(folder / "head", encoder=encoder)
        weight = float(next(iter(head.module.parameters())).flatten()[0])
        assert (weight, list(head.classes)) in [(1.0, ["a", "b"]), (2.0, ["x", "y"])], (weight, head.classes)

    def work(folder: Path) -> None:
        for _ in range(4):
            save(folder, 1.0, ["a", "b"])
            save(folder, 2.0, ["x", "y"])

    return Kind(
        work,
        lambda folder: files(folder / "head")["head.safetensors"],
        lambda folder: save(folder, 1.0, ["a", "b"]),
        look,
    )


def saved_encoders(root: Path) -> Kind:
    """A trained encoder over an old one."""
    from vision_features.encoders import load_encoder
    from vision_features.encoders.tuned import load_tuned, save_tuned

    encoder = load_encoder("micro-clip/random", device="cpu")
    assert encoder.module is not None
    start = {name: value.clone() for name, value in encoder.module.state_dict().items()}

    def save(folder: Path, seed: int) -> None:
        save_tuned(
            encoder,
            start,
            folder / "tuned",
            {"trained": {"tune": "full", "seed": seed}, "data": {"benchmark": "digits"}},
        )

    def work(folder: Path) -> None:
        for seed in range(6):
            save(folder, seed)

    return Kind(
        work,
        lambda folder: sorted(files(folder / "tuned")),
        lambda folder: save(folder, 0),
        lambda folder: load_tuned(folder / "tuned", encoder),
    )


def copies_of_the_hub(root: Path) -> Kind:
    """A data set copied from a repository: each row once."""
    from gate_runner.benchmarks import BENCHMARKS, DataRequest

    path = PACKAGES / "gate-runner" / "tests" / "_hub_folders.py"
    spec = importlib.util.spec_from_file_location("hub_folders", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    splits = {"train": [0, 1] * 60, "validation": [1, 0] * 30}
    module.labelled("ethz/food101", module.named(101), splits, ("image", "label"))(root / "hub")

    def copied(folder: Path) -> object:
        os.environ["GATE_RUNNER_CACHE"] = str(folder)
        data = BENCHMARKS["food101"].load("hub", DataRequest(root / "hub", size=8))
        parts = (data.train, data.validation, data.test)
        return [hashlib.sha256(split.images[:].numpy().tobytes()).hexdigest() for split in parts]

    return Kind(copied, copied)


def cached_features(root: Path) -> Kind:
    """Features of 400 pictures in batches of 4, written as they come."""
    from vision_features.encoders import load_encoder
    from vision_features.features import FeatureCache, digests_of

    encoder = load_encoder("micro-clip/random", device="cpu")
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (400, 3, 32, 32)).astype(np.uint8))

    def encode(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return encoder.encode_image(images[rows])

    def features(folder: Path) -> torch.Tensor:
        cache = FeatureCache(folder / "features")
        rows: torch.Tensor = cache.rows("images", "projected", digests_of(images), 4, encode)[:]
        return rows

    return Kind(features, lambda folder: features(folder).numpy().tobytes())


def knowledge_bases(root: Path) -> Kind:
    """A knowledge base with names, n-grams and their index."""
    from oven_retrieval.workspace import build_workspace, open_workspace

    words = [
        f"Q{number},{'abcdefgh'[number % 8]}{number * 7919 % 997} thing of {number % 13}" for number in range(1500)
    ]
    (root / "kb.csv").write_text("id,name\n" + "\n".join(words) + "\n")

    def work(folder: Path) -> None:
        build_workspace(root / "kb.csv", folder / "kb", overwrite=True)

    def content(folder: Path) -> object:
        linker = open_workspace(folder / "kb", typos=True)
        return files(folder / "kb"), linker.link(["a7919 thng", "b0 thing of 1"]).rows.tolist()

    return Kind(work, content)


EDITED = 60


def edited_knowledge_bases(root: Path) -> Kind:
    """Additions and removals, each with its index: the entities before or after, and all links right."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.workspace import (
        add_to_workspace,
        build_workspace,
        open_workspace,
        remove_from_workspace,
        update_workspace,
    )

    (root / "small.csv").write_text("id,name\n" + "\n".join(f"Q{n},thing {n}" for n in range(200)) + "\n")

    def entity_ids(folder: Path) -> set[str]:
        return {entity.id for entity in KnowledgeBase(folder / "kb" / "kb")}

    def work(folder: Path) -> None:
        for number in range(200, 200 + EDITED, 20):
            lacking = [n for n in range(number, number + 20) if f"Q{n}" not in entity_ids(folder)]
            if lacking:
                more = folder / "more.csv"
                more.write_text("id,name\n" + "\n".join(f"Q{n},thing {n}" for n in lacking) + "\n")
                add_to_workspace(more, folder / "kb")
            first = f"Q{number - 200}"
            if first in entity_ids(folder):
                remove_from_workspace([first], folder / "kb")
        update_workspace(folder / "kb")

    def look(folder: Path) -> None:
        names = entity_ids(folder)
        assert {f"Q{n}" for n in range(200)} - {"Q0", "Q20", "Q40"} <= names, "entities are lost"
        added = [sum(f"Q{n}" in names for n in range(first, first + 20)) for first in range(200, 200 + EDITED, 20)]
        assert set(added) <= {0, 20}, f"halves of an addition: {added}"
        update_workspace(folder / "kb")
        linker = open_workspace(folder / "kb")
        for name in ("thing 7", "thing 199"):
            row = int(linker.link([name]).rows[0, 0])
            assert linker.kb.names[row] == name, (name, row)

    def content(folder: Path) -> object:
        linker = open_workspace(folder / "kb")
        rows = linker.link([f"thing {n}" for n in range(200 + EDITED)]).rows[:, 0]
        return sorted(entity_ids(folder)), [linker.kb.ids[row] if row >= 0 else None for row in rows]

    return Kind(work, content, lambda folder: build_workspace(root / "small.csv", folder / "kb"), look)


def rebuilt_indexes(root: Path) -> Kind:
    """The index of names made anew from the entities."""
    from oven_retrieval.workspace import build_workspace, open_workspace, update_workspace

    (root / "again.csv").write_text("id,name\n" + "\n".join(f"Q{n},thing {n}" for n in range(800)) + "\n")

    def content(folder: Path) -> object:
        linker = open_workspace(folder / "kb", typos=True)
        return linker.link([f"thing {n}" for n in range(800)]).rows[:, 0].tolist(), linker.link(
            ["thnig 77"]
        ).rows.tolist()

    return Kind(
        lambda folder: update_workspace(folder / "kb", rebuild=True), content,
        lambda folder: build_workspace(root / "again.csv", folder / "kb"),
        lambda folder: len(open_workspace(folder / "kb").kb),
    )  # fmt: skip


def vectors(root: Path) -> Kind:
    """Vectors of 4,000 rows, chunk by chunk."""
    from oven_retrieval.vectors import VectorStore, build_vectors

    values = np.random.default_rng(0).normal(size=(4000, 64))

    def work(folder: Path) -> None:
        if not (folder / "vectors").exists():
            build_vectors(
                lambda first, last: values[first:last], 4000, folder / "vectors", kb="k", encoder="e", chunk=40
            )

    return Kind(work, lambda folder: (sorted(files(folder)), VectorStore(folder / "vectors").rows(0, 4000).tobytes()))


def pairs(root: Path) -> Kind:
    """A build of pairs: the same bytes."""
    from eqben_builder.building import build
    from eqben_builder.micro.builder import MicroBuilder

    return Kind(
        lambda folder: build(MicroBuilder(aspects=["count", "attribute"], size=48, seed=3), folder / "build", pairs=40),
        lambda folder: files(folder / "build"),
    )


def searches(root: Path) -> Kind:
    """A search of a subset with its result."""
    import eevee

    table = eevee.load_table("gate")

    def work(folder: Path) -> None:
        chosen = eevee.select(table, k=3, method="exhaustive", nested=False, randoms=20)
        chosen.to_json(folder / "chosen.json")

    def look(folder: Path) -> None:
        if (folder / "chosen.json").exists():
            eevee.read_selection(folder / "chosen.json", table)

    def content(folder: Path) -> object:
        raw = json.loads((folder / "chosen.json").read_text())
        return raw["benchmarks"], raw["error"]

    return Kind(work, content, look=look)


KINDS: dict[str, Callable[[Path], Kind]] = {
    "gate-runner: runs": runs,
    "gate-runner: trained runs": trained_runs,
    "gate-runner: finetunings": finetunings,
    "gate-runner: heads over old ones": saved_heads,
    "gate-runner: trained encoders over old ones": saved_encoders,
    "gate-runner: features": cached_features,
    "gate-data: copies of the hub": copies_of_the_hub,
    "oven-retrieval: builds": knowledge_bases,
    "oven-retrieval: additions, removals": edited_knowledge_bases,
    "oven-retrieval: indexes made anew": rebuilt_indexes,
    "oven-retrieval: vectors": vectors,
    "eqben-builder: builds": pairs,
    "eevee: searches": searches,
}


def lived(work: Callable[[], object], seconds: float | None = None) -> int:
    """Run in a process of its own, which is killed after some seconds; how it ended."""
    pid = os.fork()
    if pid == 0:
        warnings.simplefilter("ignore")
        file = os.open(SAID, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(file, stream)
        tqdm.set_lock(threading.RLock())  # the one of all processes stays locked by who is killed while it prints
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent sees the status, and a person the reason
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    if seconds is not None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tried(kind: Kind, root: Path, kills: int, draw: random.Random) -> dict[str, Any]:
    """Kill one kind so often, and count what was lost."""
    faults: list[str] = []

    def fresh(number: object) -> Path:
        folder = root / f"folder {number}"
        folder.mkdir()
        kind.begin(folder)
        return folder

    whole = fresh("whole")
    begun = time.monotonic()
    if status := lived(lambda: kind.work(whole)):
        return {"kills": 0, "faults": [f"undisturbed, it ended with {status}"]}
    seconds = time.monotonic() - begun
    wanted, names = kind.content(whole), names_left(whole)
    done = ends = 0
    folder = fresh(0)
    for turn in range(4 * kills):
        if done == kills:
            break
        begun = time.monotonic()
        status = lived(lambda folder=folder: kind.work(folder), draw.uniform(0, seconds))  # type: ignore[misc]
        if status == 0:  # it came through: the first was slower, for the machine had other work
            seconds = min(seconds, time.monotonic() - begun)
        if status not in (0, -signal.SIGKILL):
            faults.append(f"turn {turn}: after a kill it ended with {status}")
        done += status == -signal.SIGKILL
        if lived(lambda folder=folder: kind.look(folder)):  # type: ignore[misc]
            faults.append(f"turn {turn}: what lies there is neither the old nor the new")
        if status == 0 or done % 3 == 0 or done == kills:
            if status := lived(lambda folder=folder: kind.work(folder)):  # type: ignore[misc]
                faults.append(f"turn {turn}: in the end it ended with {status}")
            elif kind.content(folder) != wanted:
                faults.append(f"turn {turn}: ended otherwise than undisturbed")
            elif (left := names_left(folder)) != names:
                faults.append(f"turn {turn}: left over {dict(left - names)}, lacking {dict(names - left)}"[:300])
            ends += 1
            shutil.rmtree(folder)
            folder = fresh(turn + 1)
        if len(faults) > 4:
            break
    return {"kills": done, "ends_compared": ends, "seconds_undisturbed": round(seconds, 2), "faults": faults}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--output", type=Path, default=RESULTS / "trust_kills_of_kinds.json")
    parser.add_argument("--go-on", action="store_true", help="leave out kinds that the output already has")
    options = parser.parse_args()
    collected: dict[str, Any] = {}
    if options.output.exists():
        collected = json.loads(options.output.read_text())["kinds"]
    torch.set_num_threads(1)
    for name, make in KINDS.items():
        before = collected.get(name, {"kills": 0, "faults": []})
        if options.only not in name or (options.go_on and before["kills"] >= options.kills and not before["faults"]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ["GATE_RUNNER_CACHE"] = str(Path(folder) / "cache")
            draw = random.Random(f"{name} {options.seed}")
            collected[name] = tried(make(Path(folder)), Path(folder), options.kills, draw)
        print(f"{name}: {collected[name]}", flush=True)
        result = {
            "kills": sum(kind["kills"] for kind in collected.values()),
            "faults": sum(len(kind["faults"]) for kind in collected.values()),
            "kinds": collected,
            "seed": options.seed,
            "python": platform.python_version(),
            "machine": platform.machine(),
        }
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(kind["faults"] for kind in collected.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
