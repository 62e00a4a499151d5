"""Check a build folder from what is on the disk alone: hashes, rows, certificates and pairs made again, duplicates."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eqben_builder.building.builder import Made, builder_of, certifier_of
from eqben_builder.building.evidence import pixel_change, token_edits
from eqben_builder.building.folder import (
    DESCRIPTION,
    JOURNAL,
    MANIFEST,
    PAIRS,
    checked_record,
    file_digest,
    final_hash,
    read_manifest,
    row_of,
)
from eqben_builder.duplicates import near_duplicates, perceptual_hash
from eqben_builder.formats.row import Picture
from eqben_builder.writing import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eqben_builder.building.builder import Builder
    from eqben_builder.formats.row import PairRow
    from eqben_builder.progress import Progress

#: With other versions than the manifest's, this share of the pixels may differ visibly.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Failure:
    """One thing that does not hold: where (a pair's id, a file or "manifest.json"), which check, and what was found."""

    where: str
    check: str
    found: str


@dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Args:
        pairs: Rows read.
        certified: Pairs whose certificate was made again and is the same; of subsets whose source is on the disk.
        failures: Everything that does not hold, in the order in which it was found.
    """

    pairs: int
    certified: int
    failures: tuple[Failure, ...]


def verify(
    folder: str | os.PathLike[str],
    *,
    render: int = 0,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check a whole build folder again, believing nothing that it says of itself.

    Every file has the hash that the manifest gives and no file is missing or too many; the hash over everything, the
    counts and the sizes are right; each row is a record, its captions differ, its images differ and are of one size;
    the certificate, made again from the record's source, images and mask, is the one in the row; no two pairs are
    near-duplicates at the manifest's distance.

    Args:
        folder: What `build` wrote.
        render: So many pairs, drawn at random, are made anew from the manifest's parameters and compared: scenes,
            captions and images. That finds images that were exchanged along with their hashes, and edited
            parameters. At least 0; only of "micro" and "kubric" without a folder of meshes.
        seed: Of that draw; by default another draw each time.
        progress: Called with "pairs", the number of pairs checked and of all pairs.

    Returns:
        The failures, none where everything holds.

    Raises:
        FileNotFoundError: The folder holds no manifest.
        ValueError: A manifest that cannot be read; `render` below 0, or of a subset that cannot be made again.

    Example:
        >>> import tempfile
        >>> from eqben_builder.building import build
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = build(MicroBuilder(aspects=["count"], size=32), folder, pairs=2)
        ...     _ = Path(folder, "notes.txt").write_text("left here")
        ...     verification = verify(folder, render=2)
        >>> verification.certified, [failure.found for failure in verification.failures]
        (2, ['is not in the manifest'])
    """
    root = Path(folder)
    if render < 0:
        raise ValueError(f"render = {render!r}, expected at least 0")
    manifest = read_manifest(root)
    if manifest is None:
        raise FileNotFoundError(f"{root} is no build folder: it holds no {MANIFEST}")
    failures = list(_manifest_failures(root, manifest))
    records, broken = _records(root)
    failures += broken
    failures += _count_failures(manifest, records)
    hashes, certified, complete = [], 0, []
    bits = manifest.get("duplicate_bits")
    for number, record in enumerate(records):
        try:
            first, second, mask = _pictures(root, record)
        except (OSError, ValueError) as error:
            failures.append(Failure(record.id, "pictures", str(error)))
            hashes.append((0, (1 << 64) - 1 - number))
            continue
        complete.append(record)
        if isinstance(bits, int):
            hashes.append((perceptual_hash(first), perceptual_hash(second)))
        complaints = list(_pair_failures(record, first, second, mask))
        failures += complaints
        certified += not complaints and certifier_of(record.subset) is not None
        if progress is not None:
            progress("pairs", number + 1, len(records))
    if render:
        failures += _made_again(root, manifest, complete, render, seed)
    if isinstance(bits, int):
        for earlier, later in near_duplicates(hashes, bits):
            failures.append(Failure(records[later].id, "duplicates", f"nearly repeats {records[earlier].id}"))
    return Verification(len(records), certified, tuple(failures))


def _manifest_failures(root: Path, manifest: dict[str, Any]) -> Iterator[Failure]:
    if manifest.get("complete") is not True:
        yield Failure(MANIFEST, "complete", "the build is not finished; the same build continues")
        return
    files = manifest.get("files")
    if not isinstance(files, dict):
        yield Failure(MANIFEST, "files", f"expected an object, found {type(files).__name__}")
        return
    own = {MANIFEST, JOURNAL, LOCK, DESCRIPTION}
    present = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - own
    for path in sorted({*files, *present}):
        if path not in present:
            yield Failure(path, "files", "is missing")
        elif path not in files:
            yield Failure(path, "files", "is not in the manifest")
        elif file_digest(root / path) != files[path]:
            yield Failure(path, "hash", f"is not {files[path]}")
    if manifest.get("hash") != final_hash(files):
        yield Failure(MANIFEST, "hash", f"the hash over everything is {final_hash(files)}, not {manifest.get('hash')}")


def _records(root: Path) -> tuple[list[PairRow], list[Failure]]:
    records, failures, ids = [], [], Counter[str]()
    path = root / PAIRS
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        where = f"{PAIRS}, line {number}"
        try:
            record = row_of(checked_record(json.loads(line), where), lambda name, field: Picture(root / str(name)))
        except (ValueError, RecursionError) as error:
            failures.append(Failure(where, "record", str(error).removeprefix(f"{where}: ")))
            continue
        records.append(record)
        ids[record.id] += 1
        if ids[record.id] == 2:
            failures.append(Failure(record.id, "record", "the id is given twice"))
    return records, failures


def _count_failures(manifest: dict[str, Any], records: list[PairRow]) -> Iterator[Failure]:
    if manifest.get("complete") is not True:
        return
    counts = Counter(record.aspect for record in records)
    written = manifest.get("counts")
    if not isinstance(written, dict) or {k: v for k, v in written.items() if v} != dict(counts):
        yield Failure(MANIFEST, "counts", f"says {written}, the rows are {dict(counts)}")
    subsets = str(manifest.get("subset")).split("+")
    licences = manifest.get("licences")
    for subset in subsets:
        # What is made and not taken from elsewhere has its builder's licence, whoever writes another into a row.
        due = getattr(builder_of(subset), "licence", None) if subset in ("micro", "kubric") else None
        for record in records if due is not None else ():
            if record.subset == subset and record.extra["licence"] != due:
                yield Failure(record.id, "licence", f"is {record.extra['licence']!r}, that of {subset!r} is {due!r}")
        if due is not None and (not isinstance(licences, list) or due not in licences):
            yield Failure(MANIFEST, "licences", f"are {licences!r}, without {due!r}")
    for record in records:
        if record.subset not in subsets:
            yield Failure(record.id, "record", f"is of {record.subset!r} in a build of {manifest.get('subset')!r}")


def _pictures(root: Path, record: PairRow) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.bool_] | None]:
    first, second = (picture.load() for picture in record.pictures())
    if first.shape != second.shape:
        raise ValueError(f"the images' sizes are {first.shape[:2]} and {second.shape[:2]}")
    if record.mask is None or record.mask.path is None:
        return first, second, None
    path = record.mask.path.resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError(f"the mask leads out of the folder: {str(record.mask.path)!r}")
    with Image.open(path, formats=("PNG",)) as image:
        mask = np.asarray(image.convert("L")) > 127
    return first, second, mask


def _pair_failures(
    record: PairRow, first: NDArray[np.uint8], second: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> Iterator[Failure]:
    # The files' names say which image is which, so that two exchanged rows cannot pass.
    names = [picture.name for picture in record.pictures()]
    if names != [f"{names[0].removesuffix('_0.png')}_{side}.png" for side in (0, 1)]:
        yield Failure(record.id, "record", f"{' and '.join(names)} should end in _0.png and _1.png")
    certify = certifier_of(record.subset)
    if certify is None:
        # What all pairs share: where the row speaks of it, it must be so.
        again: dict[str, Any] = {
            "token_edits": token_edits(*record.captions),
            "pixels": pixel_change(first, second, mask),
        }
        again = {name: value for name, value in again.items() if name in record.certificate}
        if np.array_equal(first, second):
            yield Failure(record.id, "pictures", "are the same")
    else:
        try:
            again = json.loads(json.dumps(certify(record, first, second, mask)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            yield Failure(record.id, "certificate", str(error) or type(error).__name__)
            return
    written = record.certificate
    for name in sorted({*written, *again} if certify is not None else again):
        if written.get(name) != again.get(name):
            yield Failure(record.id, "certificate", f"{name} is {again.get(name)}, the row says {written.get(name)}")


def _maker_of(manifest: dict[str, Any]) -> Builder:
    """The builder that the manifest's parameters describe."""
    subset = str(manifest.get("subset"))
    kind: Any = builder_of(subset)
    if not hasattr(kind, "from_parameters"):
        raise ValueError(f"pairs of the subset {subset!r} are not made from parameters alone")
    try:
        builder: Builder = kind.from_parameters(manifest.get("parameters"))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"the manifest's parameters are not those of {subset!r}: {error}") from error
    return builder


def _made_again(
    root: Path, manifest: dict[str, Any], records: Sequence[PairRow], count: int, seed: int | None
) -> Iterator[Failure]:
    """Make `count` pairs from the manifest's parameters, and compare them with what is in the folder."""
    builder = _maker_of(manifest)
    written, meant = manifest.get("parameters") or {}, json.loads(json.dumps(builder.parameters()))
    for name in sorted({*written, *meant}):
        if written.get(name) != meant.get(name):
            differing = f"{name} is {written.get(name)!r}, the builder's is {meant.get(name)!r}"
            yield Failure(MANIFEST, "parameters", differing)
    stated = manifest.get("versions")
    versions = {name: stated.get(name) if isinstance(stated, dict) else None for name in builder.versions()}
    tolerance = 0.0 if versions == builder.versions() else TOLERANCE
    drawn = np.random.default_rng(seed).permutation(len(records))[:count]
    for record in (records[k] for k in sorted(drawn.tolist())):
        job = record.id.rpartition("-")[2]
        pair = builder.make(int(job)) if job.isdecimal() else None
        if not isinstance(pair, Made):
            yield Failure(record.id, "render", "these parameters make no such pair")
            continue
        if record.captions != pair.captions:
            yield Failure(record.id, "render", f"the captions would be {pair.captions}")
        if json.loads(json.dumps(pair.source)) != dict(record.source):
            yield Failure(record.id, "render", "the source is not what these parameters make")
        for side, (stored, again) in enumerate(zip(_pictures(root, record)[:2], pair.images, strict=True)):
            if stored.shape != again.shape:
                sizes = f"{again.shape[:2]}, it is {stored.shape[:2]}"
                yield Failure(record.id, "render", f"image {side} would be {sizes}")
                continue
            change = pixel_change(stored, again)
            if change["moved" if tolerance else "changed"] > tolerance:
                share = f"{change['changed']:.1%} of the pixels differ, {change['moved']:.1%} visibly"
                yield Failure(record.id, "render", f"image {side} is not that of its scene: {share}")
