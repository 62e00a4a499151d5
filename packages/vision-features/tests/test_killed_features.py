"""Kills at every write of the feature cache, one after another: the rows are those of an undisturbed run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = '''
import builtins, gc, io, os, random, sys
from pathlib import Path

import torch
from PIL import Image

from gate_data.pictures import Pictures
from vision_features.encoders.encoder import Encoder
from vision_features.features import FeatureCache, digests_of, encode_pictures

root, kind = Path(sys.argv[1]), ""  # and in it a folder of a cache for each history of kills
values = [5, 9, 5, 30, 9, 71]
for number, value in enumerate(values):
    Image.new("RGB", (8, 8), (value,) * 3).save(root / f"{number}.png")
greys = Encoder("greys", 8, lambda images: images.mean(dim=(2, 3)) * 255, mean=(0, 0, 0), std=(1, 1, 1))


def features(size, history):
    cache = FeatureCache(root / kind / str(history) / "encoder", in_memory=0)
    if kind == "files":
        shown = Pictures.of([root / f"{number}.png" for number in range(len(values))], side=8)
        return encode_pictures(cache, greys, shown, "pooled", "t", size)[:][:, 0].round().tolist()
    digests = digests_of([str(value) for value in values])
    rows = cache.rows("t", "text", digests, size, lambda numbers: torch.tensor(values)[numbers, None].float())
    return rows[:][:, 0].tolist()


left = None


def reached():
    """Go where the kill is to come, as a kill goes: nothing is flushed, no block is left in order."""
    global left
    if left is not None:
        left -= 1
        if left < 0:
            os._exit(9)


class Torn:
    """A file whose every write is a place to be killed before, and in the middle of."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __iter__(self):
        return iter(self.file)

    def __enter__(self):
        self.file.__enter__()
        return self

    def __exit__(self, *error):
        return self.file.__exit__(*error)

    def write(self, data):
        reached()
        half = len(data) // 2
        written = self.file.write(data[:half]) or 0
        self.file.flush()
        reached()
        return written + self.file.write(data[half:])


def counted_open(file, mode="r", *rest, opened=builtins.open, **more):
    writes = set("wax+") & set(mode)
    if writes and left is not None:
        reached()
        return Torn(opened(file, mode, *rest, **more))
    return opened(file, mode, *rest, **more)


def hook(event, arguments):
    if event in ("os.remove", "os.rename", "os.truncate", "os.mkdir"):
        reached()


sys.addaudithook(hook)
builtins.open = io.open = counted_open


def attempt(kill, size, *histories):
    """In a child of its own: 9 for a kill, 0 for the right rows."""
    global left
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        for history in histories:
            left = kill
            rows = features(size, history)
            left = None
            if rows != values:
                print(kind, history, "has the rows", rows, flush=True)
        os._exit(0)
    except BaseException as error:
        left = None
        print(kind, history, type(error).__name__, error, flush=True)
        os._exit(2)


def after(history, kills):
    """How lives end in which a kill comes, one after another, each with another batch."""
    return [attempt(kill, 2 + number % 2, history) for number, kill in enumerate(kills)]


for kind in ("files", "texts"):  # what is imported late, once for all children
    features(2, "warm")
gc.collect()
gc.freeze()
for kind in ("files", "texts"):
    ended = {}
    while (ends := after(len(ended), [len(ended)])) == [9]:
        ended[len(ended)] = ends
    places = len(ended)
    print("places", kind, places, flush=True)
    draw = random.Random(int(sys.argv[2]))
    for history in range(places, places + int(sys.argv[3])):
        ended[history] = after(history, [draw.randrange(places) for _ in range(draw.choice([2, 2, 3]))])
    last = attempt(None, 2, *ended)
    for history, ends in ended.items():
        names = {path.name.partition(".")[2] for path in (root / kind / str(history)).rglob("*") if path.is_file()}
        if not {*ends} <= {0, 9} or last != 0 or names != {"npy", "npy.done", "digests.npy"}:
            print(kind, "history", history, "ended", ends, last, "left", names, flush=True)
'''


@pytest.mark.long
@pytest.mark.parametrize(("seed", "several"), [(0, 6), pytest.param(1, 30, marks=pytest.mark.again)])
def test_any_kills_leave_the_rows_of_an_undisturbed_run_and_no_other_file(
    tmp_path: Path, seed: int, several: int
) -> None:
    """Each place once, and pairs and threes; some images are there several times."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path), str(seed), str(several)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("places ")] == []
    places = {kind: int(number) for _, kind, number in (line.split() for line in lines)}
    assert set(places) == {"files", "texts"}
    assert min(places.values()) > 40
