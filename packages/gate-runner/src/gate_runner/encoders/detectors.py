"""Detectors of transformers as what finds boxes of given classes, each by its own class scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gate_runner.encoders.phrases import Phrase
from gate_runner.errors import DataError, EncoderError

MOST = 300
"""Detections of a picture: the best pairs of a query and a class."""
GROUNDING = ("grounding-dino", "mm-grounding-dino")
OWL = ("owlv2", "owlvit")
OMDET = ("omdet-turbo",)
READERS = (*GROUNDING, *OWL, *OMDET)
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


class Spotted(NamedTuple):
    """What a detector says of a picture: boxes (left, top, right, bottom as shares of it) and scores of each class."""

    boxes: Float[Tensor, "q 4"]
    scores: Float[Tensor, "q k"]


class Detector:
    """A model of transformers and its processor.

    Args:
        model: of one of the families above.
        processor: its own.

    Raises:
        EncoderError: the model is no detector that is known here.
    """

    def __init__(self, model: Any, processor: Any) -> None:
        self.model, self.processor = model, processor
        self.family: str = model.config.model_type
        self._chunks: tuple[tuple[Phrase, ...], list[list[int]]] = ((), [])
        if self.family not in (*READERS, *CLOSED):
            known = ", ".join((*READERS, *CLOSED))
            raise EncoderError(f"model type {self.family!r} is no detector that is known here; known: {known}")

    @property
    def reads(self) -> bool:
        """Whether it takes class names, so that it can be asked for classes that it was not trained on."""
        return self.family not in CLOSED

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        found: torch.device = next(self.model.parameters()).device
        return found

    @torch.inference_mode()
    def spot(self, picture: np.ndarray, asked: Sequence[Phrase]) -> Spotted:
        """Boxes and class scores of one picture.

        Args:
            picture: ``uint8 [h, w, 3]``.
            asked: the classes; a closed-set detector has its own, which must be as many.
        """
        if not self.reads:
            return self._closed(picture, len(asked))
        parts = [self._chunk(picture, asked, chunk) for chunk in self.chunks(asked)]
        if not parts:
            return Spotted(torch.zeros(0, 4), torch.zeros(0, len(asked)))
        return Spotted(torch.cat([one.boxes for one in parts]), torch.cat([one.scores for one in parts]))

    @property
    def room(self) -> int:
        """Tokens that one prompt, or one text of the text encoder, may have; start and end count."""
        config = self.model.config
        return int(config.max_text_len if self.family in GROUNDING else config.text_config.max_position_embeddings)

    def fitting(self, asked: Sequence[Phrase]) -> tuple[list[Phrase], int]:
        """What stands behind a name shortened word by word until the class alone fits, and for how many that was so.

        Args:
            asked: the classes; names and what stands before them are never cut.
        """
        found, cut = [], 0
        for phrase in asked if self.reads else ():
            shorter = phrase
            while shorter.suffix and self._tokens([shorter]) > self.room:
                shorter = shorter._replace(suffix=" ".join(shorter.suffix.split(" ")[:-1]))
            cut += shorter != phrase
            found.append(shorter)
        return (found, cut) if self.reads else (list(asked), 0)

    def chunks(self, asked: Sequence[Phrase]) -> list[list[int]]:
        """Which classes are asked for together; classes without a name in none."""
        if self._chunks[0] != tuple(asked):
            self._chunks = (tuple(asked), self._chunked(asked))
        return self._chunks[1]

    def _chunked(self, asked: Sequence[Phrase]) -> list[list[int]]:
        named = [place for place, phrase in enumerate(asked) if phrase.name]
        for place in named:
            if self._tokens([asked[place]]) > self.room:
                raise DataError(
                    f"class {asked[place].text!r} has {self._tokens([asked[place]])} tokens, at most {self.room} fit"
                )
        if self.family in OWL:
            return [named[start : start + _OWL_CLASSES] for start in range(0, len(named), _OWL_CLASSES)]
        found: list[list[int]] = []
        for place in named:
            if found and self._together([asked[each] for each in (*found[-1], place)]) <= self.room:
                found[-1].append(place)
            else:
                found.append([place])
        return found

    def caption(self, asked: Sequence[Phrase]) -> tuple[str, list[tuple[int, int]]]:
        """Grounding DINO's prompt of some classes, and where each one's own name stands in it."""
        text, spans = "", []
        for phrase in asked:
            start = len(text) + len(phrase.prefix)
            spans.append((start, start + len(phrase.name)))
            text += phrase.text.translate(_NO_STOPS) + ". "
        return text.rstrip().lower(), spans

    def token_map(self, asked: Sequence[Phrase]) -> Float[Tensor, "k t"]:
        """Which tokens of the prompt are each class's, as weights that sum to 1."""
        text, spans = self.caption(asked)
        places = self.processor.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        found = torch.zeros(len(asked), len(places))
        for row, (start, stop) in enumerate(spans):
            for token, (first, last) in enumerate(places):
                if last > first and first < stop and last > start:
                    found[row, token] = 1.0
        return found / found.sum(dim=1, keepdim=True).clamp_min(1)

    def _tokens(self, asked: Sequence[Phrase]) -> int:
        """Of what is read for one class."""
        one = self.caption(asked)[0] if self.family in GROUNDING else asked[0].text
        tokens = len(self.processor.tokenizer(one)["input_ids"])
        return max(tokens, self._together(asked)) if self.family in OMDET else tokens

    def _together(self, asked: Sequence[Phrase]) -> int:
        """Of what is read for several classes together."""
        text = _task(asked) if self.family in OMDET else self.caption(asked)[0]
        return len(self.processor.tokenizer(text)["input_ids"])

    def _chunk(self, picture: np.ndarray, asked: Sequence[Phrase], chunk: list[int]) -> Spotted:
        some = [asked[place] for place in chunk]
        if self.family in GROUNDING:
            boxes, scores = self._grounded(picture, some)
        elif self.family in OMDET:
            boxes, scores = self._omdet(picture, some)
        else:
            boxes, scores = self._owl(picture, some)
        every = torch.zeros(len(boxes), len(asked))
        every[:, chunk] = scores
        return Spotted(boxes, every)

    def _grounded(self, picture: np.ndarray, asked: Sequence[Phrase]) -> tuple[Tensor, Tensor]:
        """Class scores are the means of the probabilities of a class's tokens."""
        inputs = self.processor(images=picture, text=self.caption(asked)[0], return_tensors="pt").to(self.device)
        said = self.model(**inputs)
        weights = self.token_map(asked)
        chance = said.logits[0, :, : weights.shape[1]].sigmoid().float().cpu()
        return _corners(said.pred_boxes[0]), chance @ weights.T

    def _owl(self, picture: np.ndarray, asked: Sequence[Phrase]) -> tuple[Tensor, Tensor]:
        inputs = self.processor(images=picture, text=[[one.text for one in asked]], return_tensors="pt").to(self.device)
        said = self.model(**inputs)
        boxes = _corners(said.pred_boxes[0])
        if self.family == "owlv2":  # the picture lies in the upper left of a square
            high, wide = picture.shape[:2]
            side = max(high, wide)
            boxes = boxes * torch.tensor([side / wide, side / high, side / wide, side / high])
        return boxes, said.logits[0].sigmoid().float().cpu()

    def _omdet(self, picture: np.ndarray, asked: Sequence[Phrase]) -> tuple[Tensor, Tensor]:
        """Each class has a text of its own; a sentence that lists their names stands beside them."""
        texts = {"padding": "max_length", "max_length": self.room}
        inputs = self.processor(
            images=picture, text=[[one.text for one in asked]], task=[_task(asked)], return_tensors="pt",
            text_kwargs=texts,
        ).to(self.device)  # fmt: skip
        said = self.model(**inputs)
        return _corners(said.decoder_coord_logits[0]), said.decoder_class_logits[0].sigmoid().float().cpu()

    def _closed(self, picture: np.ndarray, classes: int) -> Spotted:
        own = int(self.model.config.num_labels)
        if own != classes:
            raise DataError(
                f"this {self.family} knows {own} classes of its own, the data set has {classes}: train it (--tune full)"
            )
        inputs = self.processor(images=picture, return_tensors="pt").to(self.device)
        said = self.model(**inputs)
        logits = said.logits[0].float().cpu()
        scores = logits.softmax(dim=-1)[:, :classes] if self.family in _SOFTMAX else logits.sigmoid()[:, :classes]
        return Spotted(_corners(said.pred_boxes[0]), scores)


def _task(asked: Sequence[Phrase]) -> str:
    return f"Detect {', '.join(one.name for one in asked)}."


def _corners(boxes: Tensor) -> Tensor:
    from vision_adapters.detection import box_convert

    return box_convert(boxes.float().cpu(), "cxcywh", "xyxy")
