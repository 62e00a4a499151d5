"""Mutated files for every parser of strangers' content: none may do more than raise a ValueError.

    python packages/eqben-builder/benchmarks/fuzz.py [--inputs 100000] [--seed 0] [--output FILE]

For each parser, whole files are mutated (bytes replaced, cut, doubled or inserted, one to eight times) and read in a
child process with at most 2 GB of address space. Anything but an answer, a ValueError or a FileNotFoundError, a second
for one input, or the child's death ends the script with the seed and number of the input, and no figure.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import pickle
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from reporting import report

from eqben_builder.pictures import decode, decode_array
from eqben_builder.scoring import read_scores
from eqben_builder.suites.caption_choice import _listed
from wary_files import pickles
from wary_files.json_files import read_json

_PLACE = Path(tempfile.gettempdir()) / "eqben-fuzz"


def pictures() -> list[bytes]:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8))
    wholes = []
    kinds = "PNG RGB, PNG RGBA, PNG P, JPEG RGB, JPEG CMYK, TIFF RGB, GIF P, WEBP RGB"
    for form, mode in (kind.split() for kind in kinds.split(", ")):
        file = io.BytesIO()
        image.convert(mode).save(file, form)
        wholes.append(file.getvalue())
    return wholes


def a_pickle(protocol: int) -> bytes:
    boxes = {"v/1.png": {"bbox": np.arange(8, dtype=np.float32).reshape(2, 4), "size": (480, 270), "visible": True}}
    return pickle.dumps([boxes, "text", 1.5, None], protocol)


def an_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((4, 5, 3), np.uint8))
    return file.getvalue()


def in_file(ending: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(content: bytes) -> object:
        path = _PLACE / f"a{ending}"
        path.write_bytes(content)
        return read(path)

    return parse


PARSERS: dict[str, tuple[list[bytes], Callable[[bytes], object], float]] = {
    "pickle": ([a_pickle(protocol) for protocol in range(6)], lambda content: pickles.load(content, "fuzz"), 1.0),
    "picture": (pictures(), lambda content: decode(content, "fuzz"), 0.3),
    "array": ([an_array()], lambda content: decode_array(content, "fuzz"), 0.2),
    "json": ([json.dumps({"0": {"filename": "1.jpg", "caption": "ä", "n": [1, 2.5, None]}}).encode()],
             in_file(".json", read_json), 0.2),
    "literal": ([b"['a cup', \"cup's\", 'x']"], lambda content: _listed(content.decode("latin1"), "fuzz"), 0.2),
    "scores": ([b"id,c0_i0,c0_i1,c1_i0,c1_i1\na,1,2,3,4\nb,1,2,3,4\n"], in_file(".csv", read_scores), 0.1),
}  # fmt: skip


def mutated(whole: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(whole)
    for _ in range(int(rng.integers(1, 9))):
        at = int(rng.integers(0, max(1, len(content))))
        kind = int(rng.integers(0, 4))
        if kind == 0 and content:
            content[min(at, len(content) - 1)] = int(rng.integers(256))
        elif kind == 1:
            content[at : at + int(rng.integers(1, 9))] = b""
        elif kind == 2:
            content[at:at] = content[at : at + int(rng.integers(1, 17))]
        else:
            content[at:at] = rng.integers(0, 256, int(rng.integers(1, 5))).astype(np.uint8).tobytes()
    return bytes(content)


def work(name: str, inputs: int, seed: int, messages: multiprocessing.Queue) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    warnings.simplefilter("ignore")
    _PLACE.mkdir(exist_ok=True)
    wholes, parse, _ = PARSERS[name]
    rng = np.random.default_rng(seed)
    refused, slowest = 0, 0.0
    for number in range(inputs):
        content = mutated(wholes[number % len(wholes)], rng)
        start = time.process_time()
        try:
            parse(content)
        except (ValueError, FileNotFoundError):
            refused += 1
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
            messages.put((name, number, f"{type(error).__name__}: {error}", content[:80]))
            return
        slowest = max(slowest, time.process_time() - start)
        if slowest > 1:
            messages.put((name, number, f"took {slowest:.1f} s", content[:80]))
            return
    messages.put((name, inputs, refused, slowest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="for pickles; other parsers get a share of it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    result: dict[str, object] = {}
    for name, (_, _, share) in PARSERS.items():
        queue = context.Queue()
        process = context.Process(target=work, args=(name, round(options.inputs * share), options.seed, queue))
        process.start()
        value = None
        while value is None and process.is_alive():
            with contextlib.suppress(Exception):
                value = queue.get(timeout=1)
        with contextlib.suppress(Exception):
            value = value or queue.get(timeout=2)
        process.join()
        if value is None or isinstance(value[2], str):
            sys.exit(f"FAILED: {name}, seed {options.seed}: {value or f'the child ended with {process.exitcode}'}")
        result[name] = {"inputs": value[1], "refused": value[2], "slowest_cpu_seconds": round(value[3], 4)}
        print(name, result[name], file=sys.stderr, flush=True)
    report({"seed": options.seed, "parsers": result, "inputs": sum(counts["inputs"] for counts in result.values())},
           options.output)  # fmt: skip


if __name__ == "__main__":
    main()
