"""Detectors of transformers, asked for boxes of given classes, each by its own class scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gate_data.boxes.files import UNNAMED
from vision_features.errors import EncoderError
from wary_files.errors import DataError

MOST = 300
"""Detections of an image: the best pairs of a query and a class."""
GROUNDING = ("grounding-dino", "mm-grounding-dino")
OWL = ("owlv2", "owlvit")
READERS = (*GROUNDING, *OWL)
"""Families that are asked for classes by their names."""
CLOSED = (
    "detr", "conditional_detr", "dab-detr", "deformable_detr", "rt_detr", "rt_detr_v2", "d_fine", "deimv2", "lw_detr",
    "rf_detr", "yolos",
)  # fmt: skip
_SOFTMAX = ("detr", "yolos")
_OWL_CLASSES = 64
"""That are asked for together: one batch of the text encoder."""
_NO_STOPS = str.maketrans(".?", "  ")
"""Signs that end a phrase of a prompt."""


class Phrase(NamedTuple):
    """A class as a detector reads it: the words that count, and what stands around them.

    ``more`` are further suffixes; the class is then read once with each, and its score is the mean over them.
    """

    name: str
    prefix: str = ""
    suffix: str = ""
    more: tuple[str, ...] = ()

    @property
    def each(self) -> list[Phrase]:
        """The same class with each of its suffixes alone."""
        return [self._replace(suffix=suffix, more=()) for suffix in (self.suffix, *self.more)]

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.prefix}{self.name}{self.suffix}"


def phrases(classes: Sequence[str], captions: Mapping[str, Mapping[str, str]] | None = None) -> list[Phrase]:
    """Class names as queries.

    What stands in parentheses is dropped, ``_`` becomes a space, and one double space a single one. A class without a
    name gets an empty phrase, of which nothing can be found.

    Source:
        GLIP's ``create_queries_and_maps`` and ``clean_name``.
    """
    listed = []
    for name in classes:
        caption = (captions or {}).get(name, {})
        shown = "" if name == UNNAMED else caption.get("name", _clean(name))
        listed.append(Phrase(shown, caption.get("prefix", ""), caption.get("suffix", "")) if shown else Phrase(""))
    return listed


def _clean(name: str) -> str:
    cleaned, depth = "", 0
    for sign in name:
        depth += sign == "("
        if not depth:
            cleaned += sign
        depth -= sign == ")" and depth > 0
    return cleaned.replace("_", " ").replace("  ", " ", 1).strip() or name.strip()


class Spotted(NamedTuple):
    """What a detector says of an image: boxes (left, top, right, bottom as shares of it) and scores of each class."""

    boxes: Float[Tensor, "q 4"]
    scores: Float[Tensor, "q k"]


class Detector:
    """A model of transformers, of one of the families above, and its processor."""

    def __init__(self, model: Any, processor: Any) -> None:
        self.model, self.processor = model, processor
        self.family: str = model.config.model_type
        self._chunks: tuple[tuple[Phrase, ...], list[list[int]]] = ((), [])
        if self.family not in (*READERS, *CLOSED):
            families = ", ".join((*READERS, *CLOSED))
            raise EncoderError(f"model type {self.family!r} is no detector that is known here; known: {families}")

    @property
    def reads(self) -> bool:
        """Whether it takes class names, so that it can be asked for classes that it was not trained on."""
        return self.family not in CLOSED

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @torch.inference_mode()
    def spot(self, picture: np.ndarray, phrases: Sequence[Phrase]) -> Spotted:
        """Boxes and class scores of one image."""
        if not self.reads:
            return self._closed(picture, len(phrases))
        parts = [self._chunk(picture, phrases, chunk) for chunk in self.chunks(phrases)]
        if not parts:
            return Spotted(torch.zeros(0, 4), torch.zeros(0, len(phrases)))
        return Spotted(torch.cat([part.boxes for part in parts]), torch.cat([part.scores for part in parts]))

    @property
    def room(self) -> int:
        """Tokens that one prompt, or one text of the text encoder, may have; start and end count."""
        config = self.model.config
        return int(config.max_text_len if self.family in GROUNDING else config.text_config.max_position_embeddings)

    def fitting(self, phrases: Sequence[Phrase]) -> tuple[list[Phrase], int]:
        """Shorten texts behind names until the class alone fits, and count the classes that were shortened.

        Words of a text go first where it does not fit by itself, then the last texts where they do not fit together.
        """
        fitted, cut = [], 0
        for phrase in phrases:
            texts = []
            for single in phrase.each:
                while single.suffix and self._tokens([single]) > self.room:
                    single = single._replace(suffix=" ".join(single.suffix.split(" ")[:-1]))
                texts.append(single.suffix)
            shorter = phrase._replace(suffix=texts[0], more=tuple(texts[1:]))
            while shorter.more and self._tokens([shorter]) > self.room:
                shorter = shorter._replace(more=shorter.more[:-1])
            cut += shorter != phrase
            fitted.append(shorter)
        return fitted, cut

    def chunks(self, phrases: Sequence[Phrase]) -> list[list[int]]:
        """Which classes are asked for together; classes without a name in none."""
        if self._chunks[0] != tuple(phrases):
            self._chunks = (tuple(phrases), self._chunked(phrases))
        return self._chunks[1]

    def _chunked(self, phrases: Sequence[Phrase]) -> list[list[int]]:
        named = [row for row, phrase in enumerate(phrases) if phrase.name]
        for row in named:
            if self._tokens([phrases[row]]) > self.room:
                raise DataError(
                    f"class {phrases[row].text!r} has {self._tokens([phrases[row]])} tokens, at most {self.room} fit"
                )
        if self.family in OWL:
            return [named[start : start + _OWL_CLASSES] for start in range(0, len(named), _OWL_CLASSES)]
        chunks: list[list[int]] = []
        for row in named:
            if chunks and self._tokens([phrases[row_before] for row_before in (*chunks[-1], row)]) <= self.room:
                chunks[-1].append(row)
            else:
                chunks.append([row])
        return chunks

    def caption(self, phrases: Sequence[Phrase]) -> tuple[str, list[tuple[int, int]]]:
        """Grounding DINO's prompt of some phrases, and where each one's own name stands in it."""
        text, spans = "", []
        for phrase in (single for several in phrases for single in several.each):
            prefix, name, whole = (  # in lower case "İ" is two letters
                part.translate(_NO_STOPS).lower() for part in (phrase.prefix, phrase.prefix + phrase.name, phrase.text)
            )
            spans.append((len(text) + len(prefix), len(text) + len(name)))
            text += whole + ". "
        return text.rstrip(), spans

    def token_map(self, phrases: Sequence[Phrase]) -> Float[Tensor, "k t"]:
        """Which tokens of the prompt are each class's, as weights that sum to 1."""
        text, spans = self.caption(phrases)
        places = self.processor.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        marks = torch.zeros(len(phrases), len(places))
        rows = [row for row, phrase in enumerate(phrases) for _ in phrase.each]
        for row, (start, stop) in zip(rows, spans, strict=True):
            for token, (first, last) in enumerate(places):
                if last > first and first < stop and last > start:
                    marks[row, token] = 1.0
        return marks / marks.sum(dim=1, keepdim=True).clamp_min(1)

    def _tokens(self, phrases: Sequence[Phrase]) -> int:
        """Of what is read for one class, or for several together."""
        if self.family in GROUNDING:
            return len(self.processor.tokenizer(self.caption(phrases)[0])["input_ids"])
        return max(len(self.processor.tokenizer(single.text)["input_ids"]) for single in phrases[0].each)

    def _chunk(self, picture: np.ndarray, phrases: Sequence[Phrase], chunk: list[int]) -> Spotted:
        chosen = [phrases[row] for row in chunk]
        if self.family in GROUNDING:
            boxes, scores = self._grounded(picture, chosen)
        else:
            boxes, scores = self._owl(picture, chosen)
        every = torch.zeros(len(boxes), len(phrases))
        every[:, chunk] = scores
        return Spotted(boxes, every)

    def _grounded(self, picture: np.ndarray, phrases: Sequence[Phrase]) -> tuple[Tensor, Tensor]:
        """Class scores are the means of the probabilities of a class's tokens."""
        inputs = self.processor(images=picture, text=self.caption(phrases)[0], return_tensors="pt").to(self.device)
        outputs = self.model(**inputs)
        weights = self.token_map(phrases)
        chance = outputs.logits[0, :, : weights.shape[1]].sigmoid().float().cpu()
        return _corners(outputs.pred_boxes[0]), chance @ weights.T

    def _owl(self, picture: np.ndarray, phrases: Sequence[Phrase]) -> tuple[Tensor, Tensor]:
        texts = [single.text for phrase in phrases for single in phrase.each]
        inputs = self.processor(images=picture, text=[texts], return_tensors="pt").to(self.device)
        outputs = self.model(**inputs)
        boxes = _corners(outputs.pred_boxes[0])
        if self.family == "owlv2":  # the image lies in the upper left of a square
            high, wide = picture.shape[:2]
            side = max(high, wide)
            boxes = boxes * torch.tensor([side / wide, side / high, side / wide, side / high])
        chance = outputs.logits[0].sigmoid().float().cpu()
        parts = chance.split([len(phrase.each) for phrase in phrases], dim=1)  # the boxes are the image's alone
        return boxes, torch.stack([part.mean(dim=1) for part in parts], dim=1)

    def _closed(self, picture: np.ndarray, classes: int) -> Spotted:
        own = int(self.model.config.num_labels)
        if own != classes:
            raise DataError(
                f"this {self.family} knows {own} classes of its own, the data set has {classes}: train it (--tune full)"
            )
        inputs = self.processor(images=picture, return_tensors="pt").to(self.device)
        outputs = self.model(**inputs)
        logits = outputs.logits[0].float().cpu()
        scores = logits.softmax(dim=-1)[:, :classes] if self.family in _SOFTMAX else logits.sigmoid()[:, :classes]
        return Spotted(_corners(outputs.pred_boxes[0]), scores)


def _corners(boxes: Tensor) -> Tensor:
    from vision_adapters.detection import box_convert

    return box_convert(boxes.float().cpu(), "cxcywh", "xyxy")
