"""Fusion models of transformers that say whether an image and a caption match: BLIP, BLIP-2, ViLT, BridgeTower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image as PillowImage

from wary_files.checkpoints import whole

if TYPE_CHECKING:
    from jaxtyping import Float64

    from eqben_builder.scoring.similarity import Image

SPEC = "hf-itm:"
"""How a command names a folder, or an id on the hub, that holds such a model."""


class _Kind(NamedTuple):
    """How a class of transformers is called, and what its answer holds."""

    score: Callable[[Any, Any], Any]  # model and inputs -> logits [n, 2] of "no match, match", or [n, 1]


_KINDS = {
    "BlipForImageTextRetrieval": _Kind(lambda model, inputs: model(**inputs, use_itm_head=True).itm_score),
    "Blip2ForImageTextRetrieval": _Kind(
        lambda model, inputs: model(**inputs, use_image_text_matching_head=True).logits_per_image
    ),
    "BridgeTowerForImageAndTextRetrieval": _Kind(lambda model, inputs: model(**inputs).logits),
    "ViltForImageAndTextRetrieval": _Kind(lambda model, inputs: model(**inputs).logits),
}

_TEXT_SIDE = {"Blip2ForImageTextRetrieval": "qformer_config"}
"""Which part of a configuration says how long a text may be, if it is not ``text_config``."""


class MatchingModel:
    """A model with its processor, called with as many images as captions.

    Args:
        model: Of one of transformers' classes for retrieval by fusion.
        processor: Of the same checkpoint.
    """

    def __init__(self, model: Any, processor: Any) -> None:
        self.model, self.processor = model.eval(), processor
        self.kind = _KINDS[type(model).__name__]
        config = getattr(model.config, _TEXT_SIDE.get(type(model).__name__, "text_config"), model.config)
        longest = getattr(config, "max_position_embeddings", None)
        limits = [limit for limit in (longest, processor.tokenizer.model_max_length) if limit]
        self.longest = int(min(limits))

    def __call__(self, images: Sequence[Image], captions: Sequence[str]) -> Float64[np.ndarray, " n"]:
        """Return the log odds of a match, one for each image with its caption, higher for a better match.

        Args:
            images: n images, uint8 [height, width, 3] of any sizes.
            captions: n captions; one that is too long for the model is cut.
        """
        import torch

        pictures = [PillowImage.fromarray(np.asarray(image)) for image in images]
        how = {"padding": True, "truncation": True, "max_length": self.longest, "return_tensors": "pt"}
        if type(self.model).__name__ == "Blip2ForImageTextRetrieval":
            inputs = self._for_queries(pictures, self.processor.tokenizer(list(captions), **how))
        else:
            inputs = self.processor(images=pictures, text=list(captions), **how)
        inputs = inputs.to(self.model.device)
        with torch.inference_mode():
            logits = self.kind.score(self.model, inputs).double().cpu()
        odds = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
        return np.asarray(odds.numpy(), dtype=np.float64)

    def _for_queries(self, pictures: Sequence[PillowImage.Image], texts: Any) -> Any:
        """Return BLIP-2's inputs: a place for each of its queries before the text if its configuration has a mark.

        The processor would cut texts by the number of the queries, which take none of the text's positions.
        """
        import torch
        from transformers import BatchFeature

        ids, mask = texts["input_ids"], texts["attention_mask"]
        image_mark, queries = self.model.config.image_token_index, self.model.config.num_query_tokens
        if image_mark is not None:
            ids = torch.cat([ids.new_full((len(ids), queries), image_mark), ids], dim=1)
            mask = torch.cat([mask.new_ones((len(mask), queries)), mask], dim=1)
        images = self.processor.image_processor(images=list(pictures), return_tensors="pt")
        return BatchFeature({"input_ids": ids, "attention_mask": mask, **images})


def load_matching(spec: str, device: str = "cpu") -> MatchingModel:
    """Load a fusion model by ``hf-itm:FOLDER_OR_ID``.

    Args:
        spec: A folder that ``save_pretrained`` wrote, or an id on the hub, behind ``hf-itm:``.
        device: A torch device.

    Raises:
        ValueError: transformers is not installed; no such folder or id; a checkpoint of another architecture, with
            those that are known. Code that a checkpoint brings is never run.

    Source:
        The matching heads of BLIP, BLIP-2, ViLT and BridgeTower, as transformers has them. ALBEF, METER and FIBER have
        no class there: a function ``score(images, captions)`` that wraps them is given as ``MODULE:FUNCTION``.
    """
    name = spec.removeprefix(SPEC)
    try:
        import transformers
    except ImportError as error:
        raise ValueError(f"model {spec!r} needs transformers: pip install 'eqben-builder[matching]'") from error
    local = Path(name).expanduser()
    if name.startswith((".", "/", "~")) and not local.is_dir():
        raise ValueError(f"model {spec!r}: there is no folder {name}")
    place = str(local) if local.is_dir() else name
    try:
        config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
        architecture = next(iter(config.architectures or ()), "none")
        if architecture not in _KINDS:
            raise ValueError(f"its architecture is {architecture}; expected {', '.join(_KINDS)}")
        form = getattr(transformers, architecture)
        model, _ = whole(form.from_pretrained, place)
        library: Any = transformers
        processor = library.AutoProcessor.from_pretrained(place, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ValueError(f"model {spec!r}: {' '.join(str(error).split())[:300]}") from error
    return MatchingModel(model.to(device), processor)
