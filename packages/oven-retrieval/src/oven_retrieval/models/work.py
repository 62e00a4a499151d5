"""The folder of a training that is under way: features, checkpoint, entities; then it becomes the model's folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oven_retrieval.durable import own_file
from oven_retrieval.encoding import as_array, entity_text
from oven_retrieval.folder import FolderError
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.models.questions import Question, image_files
from oven_retrieval.models.towers import PictureRows, ReadPictures
from oven_retrieval.models.trained import KIND, MODEL, WEIGHTS, EncodedDual, safetensors_torch, trained_parameters
from oven_retrieval.pictures import Size
from oven_retrieval.progress import Progress, Say
from oven_retrieval.text_files import read_json
from oven_retrieval.vectors import VectorStore, build_index, build_vectors

_TUNING_QUESTIONS = 1000


class TrainingWork:
    """`<output>.work`: what a killed training finds again."""

    def __init__(self, output: Path, identity: Mapping[str, Any], say: Say, progress: Progress | None = None) -> None:
        self.output, self._say, self._progress = output, say, progress
        self.path = own_file(output.with_name(output.name + ".work"))
        self._identity = json.loads(json.dumps(identity))
        self.hash = hashlib.sha256(json.dumps(self._identity, sort_keys=True).encode()).hexdigest()
        file = own_file(self.path / "identity.json")
        if file.is_file():
            before = read_json(file)
            differing = [name for name in self._identity if before.get(name) != self._identity[name]]
            if differing:
                raise FolderError(
                    f"{self.path}: an unfinished training with other {', '.join(differing)} is there; remove it to "
                    "start anew"
                )
            say(f"going on with {self.path}")
        self.path.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self._identity, indent=1), encoding="utf-8")

    @property
    def checkpoint(self) -> Path:
        """File of the training itself."""
        return self.path / "checkpoint.pt"

    def features(self, name: str, count: int, encode: Callable[[int, int], Tensor], batch: int) -> VectorStore:
        """Features [count, d] of what `encode` encodes from row to row; what is there is not encoded again."""
        folder = self.path / name
        if not folder.is_dir():

            def part(first: int, last: int) -> Any:
                with torch.no_grad():
                    return as_array(encode(first, last))

            self._say(f"{name}: {count:,} to encode")
            build_vectors(
                part,
                count,
                folder,
                kb=self.hash,
                encoder="features",
                dtype="float32",
                chunk=batch,
                progress=self._progress_of(name),
            )
        return VectorStore(folder, kb=self.hash)

    def _progress_of(self, phase: str) -> Progress | None:
        """Progress under the name of what is encoded."""
        progress = self._progress
        return None if progress is None else lambda _, done, total: progress(phase, done, total)

    def encode_entities(
        self,
        dual: EncodedDual,
        kb: KnowledgeBase,
        pictures: Mapping[int, Path],
        read: ReadPictures,
        batch: int,
        size: Size,
    ) -> VectorStore:
        """Vectors of all entities by the trained model."""
        folder = self.path / "entities"
        if folder.is_dir():
            return VectorStore(folder, kb=kb.hash)
        inputs = PictureRows(pictures, len(kb), read, size)

        def encode(first: int, last: int) -> Any:
            texts = [entity_text(kb, row, dual.config.template) for row in range(first, last)]
            return dual.entities(inputs[first:last], texts)

        self._say(f"entities: {len(kb):,} to encode")
        return build_vectors(
            encode,
            len(kb),
            folder,
            kb=kb.hash,
            encoder=f"{dual.config.encoder}; {self.hash[:12]}",
            chunk=batch,
            progress=self._progress_of("entities"),
        )

    def index(
        self, dual: EncodedDual, store: VectorStore, questions: Sequence[Question], read: ReadPictures, batch: int,
        memory_mb: float | None, recall: float,
    ) -> None:  # fmt: skip
        """Index the entities, tuned on validation questions."""
        if (self.path / "index").is_dir():
            return
        chosen = list(questions[:: max(1, len(questions) // _TUNING_QUESTIONS)])
        queries = torch.cat(
            [
                torch.from_numpy(dual.queries(read(image_files(part)), [q.text for q in part]))
                for part in (chosen[i : i + batch] for i in range(0, len(chosen), batch))
            ]
        )
        build_index(
            store,
            self.path / "index",
            memory_mb=memory_mb,
            recall=recall,
            queries=queries.numpy(),
            say=self._say,
            progress=self._progress,
        )

    def finish(self, dual: EncodedDual, report: Mapping[str, Any]) -> None:
        """Write the weights and the description, take the final name, and drop what only the training needed."""
        safetensors_torch().save_file(trained_parameters(dual.module), self.path / WEIGHTS)
        description = {"kind": KIND, "config": asdict(dual.config), "report": report}
        (self.path / MODEL).write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        self.path.rename(self.output)
        for entry in self.output.iterdir():
            if entry.name not in {MODEL, WEIGHTS, "entities", "index"}:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
