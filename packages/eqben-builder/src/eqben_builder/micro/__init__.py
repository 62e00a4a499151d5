"""A micro world: scene graphs of coloured shapes, their pictures, captions, questions and minimal pairs."""

from eqben_builder.micro.attributes import (
    COLOURS,
    FIELDS,
    MATERIALS,
    PLURALS,
    RELATIONS,
    RGB,
    SHAPES,
    SIZE_SCALE,
    SIZES,
    VOCABULARY,
    all_words,
)
from eqben_builder.micro.pairs import KINDS, certify, minimal_pair, scene_difference
from eqben_builder.micro.raster import Rendering, render
from eqben_builder.micro.sampling import generator_at, sample_scene, scene_at
from eqben_builder.micro.scene import AREA, Item, Relation, Scene, shared_area, spatial_relation
from eqben_builder.micro.statements import Count, Exists, Phrase, Related, caption, holds, parse, question
from eqben_builder.minimal import NUMBERS, Difference, Pair

__all__ = [
    "AREA",
    "COLOURS",
    "FIELDS",
    "KINDS",
    "MATERIALS",
    "NUMBERS",
    "PLURALS",
    "RELATIONS",
    "RGB",
    "SHAPES",
    "SIZES",
    "SIZE_SCALE",
    "VOCABULARY",
    "Count",
    "Difference",
    "Exists",
    "Item",
    "Pair",
    "Phrase",
    "Related",
    "Relation",
    "Rendering",
    "Scene",
    "all_words",
    "caption",
    "certify",
    "generator_at",
    "holds",
    "minimal_pair",
    "parse",
    "question",
    "render",
    "sample_scene",
    "scene_at",
    "scene_difference",
    "shared_area",
    "spatial_relation",
]
