"""Fills cells, in this process: pictures, features and texts are made once for all cells of a data set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gate_runner.errors import DataError, StorageError
from gate_runner.features import FeatureCache
from gate_runner.icinw.cells import Cell
from gate_runner.icinw.features import Features, encode, projection_of
from gate_runner.icinw.finetuning import fill_finetuned
from gate_runner.icinw.fitting import Filled, NotApplicableError, fill_frozen, jsonable
from gate_runner.icinw.record import Record, cell_file, predictions_file, save
from gate_runner.icinw.request import ALONE, GridRequest
from gate_runner.icinw.sets import GridSet, Pair
from gate_runner.icinw.texts import ClassTexts, Embedder, class_texts, digest_of
from gate_runner.runs.folder import write
from gate_runner.tasks.job import Progress, silent

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

_LOG = logging.getLogger(__name__)


class Unit(NamedTuple):
    """Cells that see the same images: what one worker fills at a time."""

    dataset: str
    shots: int
    tune: str
    seed: int


@dataclass
class Filler:
    """An encoder, and what it has given so far.

    Args:
        request: what is filled.
        encoder: frozen; a training puts its weights back.
        progress: told how far encoding is.
    """

    request: GridRequest
    encoder: Encoder
    progress: Progress = silent
    sets: dict[str, GridSet] = field(default_factory=dict)
    held: dict[str, tuple[Pair, Features]] = field(default_factory=dict)
    weights: dict[tuple[str, str], ClassTexts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the data sets."""
        self.sets = {one.id: one for one in self.request.sets()}
        self.cache = FeatureCache.of(self.encoder, self.encoder.fingerprint(), cap=self.request.settings.feature_cache)
        self.embed = None if self.encoder.text is None else Embedder(self.encoder.encode_text)

    def data(self, dataset: str) -> tuple[Pair, Features]:
        """Pictures and features of a data set; those of one data set are held at a time."""
        if dataset not in self.held:
            self.held.clear()
            one, settings = self.sets[dataset], self.request.settings
            pair = one.load(settings.data_root, settings.limit, self.encoder.image_size)
            counts = self.request.output / "features" / dataset / "encoded.json"
            features = encode(self.encoder, one, pair, self.cache, counts, settings.batch_size, self.progress)
            self.held[dataset] = (pair, features)
        return self.held[dataset]

    def texts(self, dataset: str, knowledge: str) -> ClassTexts:
        """Class texts of a data set."""
        key = (dataset, knowledge)
        if key not in self.weights:
            assert self.embed is not None
            classes = self.data(dataset)[0].classes
            self.weights[key] = class_texts(dataset, classes, knowledge, self.embed, self.request.knowledge_folder)
        return self.weights[key]

    def fill(self, unit: Unit, cells: Iterable[Cell], done: Callable[[Record], None]) -> None:
        """Fill the cells of a unit and write each as soon as it is there; one that fails does not end the others.

        Raises:
            StorageError: the run folder cannot be written.
        """
        same: dict[tuple[str, str, str], Filled] = {}
        for cell in cells:
            try:
                filled = self._filled(cell, same)
            except NotApplicableError as error:
                done(save(self.request.output, Record(cell, "skipped", str(error))))
                continue
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever goes wrong in a cell becomes its reason
                _LOG.debug("%s failed", cell.name, exc_info=True)
                line = next(iter(str(error).splitlines()), "") or "no message"
                reason = line if isinstance(error, DataError) else f"{type(error).__name__}: {line}"
                done(save(self.request.output, Record(cell, "failed", reason)))
                continue
            if self.request.keep_predictions:
                write(predictions_file(self.request.output, cell), _npz(filled.predictions))
            done(save(self.request.output, filled.record))

    def _filled(self, cell: Cell, same: dict[tuple[str, str, str], Filled]) -> Filled:
        self._check(cell)
        pair, features = self.data(cell.dataset)
        texts = ClassTexts(None)
        if cell.init == "language":
            texts = self.texts(cell.dataset, cell.knowledge)
            if texts.weights is None:
                raise NotApplicableError(texts.reason)
        key = (cell.init, cell.projection, digest_of(texts.weights))
        if key in same:
            there = same[key]
            return Filled(replace(there.record.moved(cell), known=texts.known), there.predictions)
        metric, short = self.sets[cell.dataset].metric, self.request.short_classes
        if cell.tune == "full" and cell.shots != 0:
            found = fill_finetuned(cell, self.encoder, pair, features, texts, metric, self.request.settings, short)
        else:
            probe = self.request.probe
            if cell.init == "random" and probe not in ALONE:
                probe = ALONE[0]
            scale = self.encoder.logit_scale or 100.0
            found = fill_frozen(cell, features, texts, metric, scale, probe, short)
        found = Filled(replace(found.record, chosen=jsonable(found.record.chosen)), found.predictions)
        same[key] = found
        return found

    def _check(self, cell: Cell) -> None:
        """Refuse what the encoder cannot do."""
        projected = projection_of(self.encoder) is not None
        if cell.init == "language" and self.embed is None:
            raise NotApplicableError(f"encoder {self.encoder.spec!r} has no text side")
        if cell.projection == "1p" and cell.init == "language" and not projected:
            raise NotApplicableError(f"encoder {self.encoder.spec!r} shows no projection to merge")
        if cell.projection == "2p" and cell.init == "random" and self.embed is None:
            raise NotApplicableError(f"encoder {self.encoder.spec!r} has no second projection")
        if cell.projection == "1p" and cell.init == "random" and not projected and self.embed is not None:
            raise NotApplicableError(f"encoder {self.encoder.spec!r} shows no features before its projection")


def missing(request: GridRequest, cell: Cell, metric: str) -> bool:
    """Whether a cell has yet to be filled: it is not there, failed, did not apply then, or has another metric."""
    path = cell_file(request.output, cell)
    if not path.exists():
        return True
    try:
        there = Record.from_file(path)
    except DataError:
        if request.settings.recompute:
            return True
        raise
    if there.status != "ok" or there.metric != metric:
        return True
    return request.keep_predictions and not predictions_file(request.output, cell).exists()


def _npz(predictions: np.ndarray) -> bytes:
    import io

    buffer = io.BytesIO()
    np.savez_compressed(buffer, predictions=predictions.astype(np.float32))
    return buffer.getvalue()
