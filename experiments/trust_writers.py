"""Two hundred pairs of writers that start together, over all that writes to a place of the user's in every package.

    python experiments/trust_writers.py [--pairs 200]

Each pair is two processes that wait for one signal. A writer may be done, or be refused with a message that names who
is there. Afterwards the place must open, whole, and hold what those who were done were asked for: nothing is lost,
doubled or mixed. Anything else is printed and makes the exit status 1. The result is written after every ten pairs;
`--go-on` begins after the last of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import gate_runner
from eqben_builder.building import build, read_records, verify
from eqben_builder.formats import PairRow, Picture, encode_png, read_any, write_as
from eqben_builder.micro.builder import MicroBuilder
from knowledge_prompts import ClassPrompts, GeneratedKnowledge, StoredKnowledge, build_files
from oven_retrieval import Entity, KnowledgeBase, build_kb
from oven_retrieval.workspace import (
    add_to_workspace,
    build_workspace,
    open_workspace,
    remove_from_workspace,
    update_workspace,
)

RESULTS = Path(__file__).parent / "results"
THERE = re.compile(
    r"(process|thread|search).*(writ|works|held)|(held|written|writing|works on it).*(process|thread)", re.S
)
Act = Callable[[Path, str], None]


class Place(NamedTuple):
    """Something that is written to: what prepares it, who writes, and what must hold afterwards."""

    prepare: Callable[[Path], None]
    writers: dict[str, Act]
    check: Callable[[Path, list[tuple[str, str, bool]]], None]


def nothing(folder: Path) -> None:
    folder.mkdir()


def small(**options: object) -> MicroBuilder:
    return MicroBuilder(size=16, duplicate_bits=None, **options)


def eqben_built(folder: Path, done: list[tuple[str, str, bool]]) -> None:
    assert any(ok for *_, ok in done), done
    ids = [record.id for record in read_records(folder / "pairs")]
    assert len(ids) == len(set(ids)) > 0, ids
    verification = verify(folder / "pairs")
    assert not verification.failures, verification.failures


def a_row(name: str) -> PairRow:
    one, other = (Picture(content=encode_png(np.full((4, 4, 3), grey, np.uint8))) for grey in (0, 9))
    return PairRow(name, "micro", "count", one, other, "one", "two", {}, None)


def exported(form: str) -> Place:
    def write(folder: Path, tag: str) -> None:
        write_as(
            [a_row(f"{tag}-{at}") for at in range(3)], folder / f"out{'.parquet' if form == 'parquet' else ''}", form
        )

    def check(folder: Path, done: list[tuple[str, str, bool]]) -> None:
        (path,) = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
        ids = sorted(row.id for row in read_any(path))
        assert ids in [sorted(f"{tag}-{at}" for at in range(3)) for _, tag, ok in done if ok], (ids, done)
        assert sum(ok for *_, ok in done) == 1, done

    return Place(nothing, {f"write {form}": write}, check)


def project(folder: Path) -> None:
    folder.mkdir()
    rows = "".join(f"e{at},name {at}\n" for at in range(40))
    (folder / "kb.csv").write_text(f"id,name\n{rows}")
    for tag in ("0", "1"):
        (folder / f"more{tag}.csv").write_text(f"id,name\nnew{tag},fresh {tag}\n")
    build_workspace(folder / "kb.csv", folder / "p", tokenizer="whitespace")


def project_whole(folder: Path, done: list[tuple[str, str, bool]]) -> None:
    kb = KnowledgeBase(folder / "p" / "kb", verify=True)
    expected = {f"e{at}" for at in range(40)}
    for name, tag, ok in done:
        if ok and name == "oven add":
            expected.add(f"new{tag}")
        if ok and name == "oven remove":
            expected.discard(f"e{tag}")
    assert {one.id for one in kb} == expected, done
    linker = open_workspace(folder / "p", typos=True)
    names = {one.name: one.id for one in kb}
    rows = linker.link(list(names)).rows[:, 0].tolist()
    assert [kb.ids[row] for row in rows] == list(names.values()), done


def base(folder: Path) -> None:
    folder.mkdir()
    build_kb([Entity("1", "a")], folder / "kb")


def base_whole(folder: Path, done: list[tuple[str, str, bool]]) -> None:
    ids = [one.id for one in KnowledgeBase(folder / "kb", verify=True)]
    assert ids in [[f"new{tag}"] * 1 for _, tag, ok in done if ok] or (ids == ["1"] and not any(d[2] for d in done))


class Model:
    """A language model that answers at once."""

    identity = "test"

    def complete(self, prompt: str) -> str:
        """The same to everything."""
        return " What it is."


def answers(folder: Path, tag: str) -> None:
    source = GeneratedKnowledge(Model(), {"owl": "A bird."}, cache=folder / "answers.jsonl", items_per_class=1)
    for at in range(5):
        source.items(f"hen {tag} {at}")


def answers_whole(folder: Path, done: list[tuple[str, str, bool]]) -> None:
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    source = GeneratedKnowledge(Model(), {"owl": "A bird."}, cache=folder / "answers.jsonl", items_per_class=1)
    for _, tag, ok in done:
        for at in range(5 if ok else 0):
            assert source.items(f"hen {tag} {at}") == ["What it is."]
    assert source.calls == 0, source.calls
    assert lines


def knowledge(folder: Path, tag: str) -> None:
    del tag
    known = StoredKnowledge({"owl": ["A bird."], "great dane": ["A dog."]}, name="wiktionary")
    build_files(ClassPrompts("own", ["a {}."], ["owl", "great dane"]), folder, wiktionary=known, model=Model())


def knowledge_whole(folder: Path, done: list[tuple[str, str, bool]]) -> None:
    assert any(ok for *_, ok in done), done
    assert [path.name for path in folder.rglob("*.tsv")], list(folder.rglob("*"))
    assert not [path for path in folder.rglob("*") if "partial" in path.name]


def ran(limit: int) -> Act:
    def act(folder: Path, tag: str) -> None:
        del tag
        done = gate_runner.run("digits", encoder="micro-clip/random", output=folder / "run", limit=limit, show=False)
        assert not done.failed, done.failed

    return act


def ran_whole(folder: Path, done: list[tuple[str, str, bool]]) -> None:
    from gate_runner.runs.stored import read_run

    run = read_run(folder / "run")
    assert [result.status for result in run.results] == ["ok"]
    run.outcomes(run.results[0])
    assert len({name for name, _, ok in done if ok}) == 1, done
    assert not list((folder / "run").rglob("*.lock"))


OVEN: dict[str, Act] = {
    "oven add": lambda folder, tag: void(add_to_workspace(folder / f"more{tag}.csv", folder / "p")),
    "oven remove": lambda folder, tag: void(remove_from_workspace([f"e{tag}"], folder / "p")),
    "oven update": lambda folder, tag: void(update_workspace(folder / "p")),
    "oven rebuild": lambda folder, tag: void(update_workspace(folder / "p", rebuild=True)),
}


def void(value: object) -> None:
    del value


PLACES: dict[str, Place] = {
    "eqben build": Place(
        nothing, {"build": lambda folder, tag: void(build(small(), folder / "pairs", pairs=2))}, eqben_built
    ),
    "eqben build, other options": Place(
        nothing,
        {
            "build": lambda folder, tag: void(build(small(), folder / "pairs", pairs=2)),
            "build count": lambda folder, tag: void(build(small(aspects=["count"]), folder / "pairs", pairs=2)),
        },
        eqben_built,
    ),
    **{f"eqben {form}": exported(form) for form in ("parquet", "eqben-flat")},
    "oven project": Place(project, OVEN, project_whole),
    "oven base": Place(
        base,
        {"build_kb": lambda folder, tag: void(build_kb([Entity(f"new{tag}", "x")], folder / "kb", overwrite=True))},
        base_whole,
    ),
    "knowledge answers": Place(nothing, {"answers": answers}, answers_whole),
    "knowledge files": Place(nothing, {"build_files": knowledge}, knowledge_whole),
    "gate-runner run": Place(nothing, {"run": ran(40)}, ran_whole),
    "gate-runner run, other settings": Place(nothing, {"run 40": ran(40), "run 30": ran(30)}, ran_whole),
}


def child(act: Act, folder: Path, tag: str, ready: int, go: int, told: int) -> None:
    """One writer; its last word is done, refused or broken."""
    warnings.simplefilter("ignore")
    try:
        os.write(ready, b".")
        os.read(go, 1)
        act(folder, tag)
        text = "done"
    except (ValueError, OSError) as error:
        text = f"refused {error}"
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        text = f"broken {traceback.format_exc()}"
    os.write(told, text.encode())
    os._exit(0)


def pair(place: Place, names: tuple[str, str], folder: Path) -> list[str]:
    """Two writers at once: what they said, after the place was checked."""
    place.prepare(folder)
    ready, tells_ready = os.pipe()
    go, say_go = os.pipe()
    pipes, children = [], []
    for tag, name in enumerate(names):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(say_go)  # else a child whose parent is gone waits for itself
            child(place.writers[name], folder, str(tag), tells_ready, go, write)
        os.close(write)
        pipes.append(read)
        children.append(pid)
    while len(os.read(ready, 2)) < 1:
        pass
    os.write(say_go, b"..")
    said = []
    for read in pipes:
        with os.fdopen(read, "rb") as file:
            said.append(file.read().decode())
    for pid in children:
        os.waitpid(pid, 0)
    for handle in (ready, tells_ready, go, say_go):
        os.close(handle)
    for one in said:
        assert one == "done" or one.startswith("refused"), one
    place.check(
        folder, [(name, str(tag), one == "done") for tag, (name, one) in enumerate(zip(names, said, strict=True))]
    )
    return said


def keep(counts: dict[str, dict[str, int]], options: argparse.Namespace) -> dict[str, object]:
    """What was done until now; written, if all places are asked for."""
    sums = {key: sum(one[key] for one in counts.values()) for key in ("pairs", "done", "refused", "lost")}
    result = {**sums, "places": counts, "python": platform.python_version(), "machine": platform.machine()}
    if not options.only:
        options.output.parent.mkdir(exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--only", default="", help="places whose name holds this")
    parser.add_argument("--output", type=Path, default=RESULTS / "trust_writers.json")
    parser.add_argument("--go-on", action="store_true", help="begin where the output ends")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    places = {name: place for name, place in PLACES.items() if options.only in name}
    counts = {name: {"pairs": 0, "done": 0, "refused": 0, "lost": 0} for name in places}
    first = 0
    if options.go_on and options.output.exists():
        counts = json.loads(options.output.read_text())["places"]
        first = sum(one["pairs"] for one in counts.values())
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "before").mkdir()
        ran(20)(Path(root) / "before", "")  # what this process has imported, its children need not
        for number in range(options.pairs):
            where = list(places)[number % len(places)]
            place = places[where]
            known = list(place.writers)
            names = (known[number // len(places) % len(known)], known[int(rng.integers(len(known)))])
            if "other" in where:
                names = (known[0], known[1])
            if number < first:
                continue
            counts[where]["pairs"] += 1
            try:
                said = pair(place, names, Path(root) / str(number))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                counts[where]["lost"] += 1
                print(f"{where} {names}: {type(error).__name__}: {error}", flush=True)
                continue
            unnamed = [one for one in said if one != "done" and not THERE.search(one)]
            other = "other" in where or where.startswith(("eqben parquet", "eqben eqben"))
            if unnamed and not other:
                print(f"{where} {names}: {unnamed}", flush=True)
                counts[where]["lost"] += 1
            counts[where]["done"] += said.count("done")
            counts[where]["refused"] += len(said) - said.count("done")
            if number % 10 == 9:
                keep(counts, options)
                print(f"{number + 1} pairs", flush=True)
    result = keep(counts, options)
    print(json.dumps(result, indent=1))
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
