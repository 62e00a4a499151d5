"""The finite attributes of a micro object with what each stands for, and the words that texts about it may use."""

from __future__ import annotations

from eqben_builder.micro.minimal import NUMBERS

SHAPES: tuple[str, ...] = ("circle", "square", "triangle", "diamond", "cross", "star", "ring", "heart")
COLOURS: tuple[str, ...] = ("red", "green", "blue", "yellow", "orange", "purple", "pink", "cyan", "brown", "white")
SIZES: tuple[str, ...] = ("small", "large")
MATERIALS: tuple[str, ...] = ("plain", "striped", "dotted", "shiny")

#: sRGB in [0, 1]. Every pair of colours differs by at least 0.3 in Euclidean distance (tested).
RGB: dict[str, tuple[float, float, float]] = {
    "red": (0.86, 0.10, 0.12),
    "green": (0.12, 0.66, 0.20),
    "blue": (0.13, 0.28, 0.92),
    "yellow": (0.97, 0.90, 0.12),
    "orange": (1.00, 0.54, 0.02),
    "purple": (0.54, 0.14, 0.74),
    "pink": (1.00, 0.56, 0.78),
    "cyan": (0.15, 0.85, 0.90),
    "brown": (0.52, 0.30, 0.12),
    "white": (0.96, 0.96, 0.96),
}

#: Radius of the circumscribed circle in units of the image's side, where an item gives no scale of its own.
SIZE_SCALE: dict[str, float] = {"small": 0.12, "large": 0.2}

#: The fields that a caption can name, in the order in which it names them, with their values.
FIELDS: dict[str, tuple[str, ...]] = {"size": SIZES, "material": MATERIALS, "colour": COLOURS, "shape": SHAPES}

PLURALS: dict[str, str] = {shape: f"{shape}s" for shape in (*SHAPES, "object")} | {"cross": "crosses"}

#: Relations as captions write them. "a left of b": a's centre lies to the left of b's, along the dominant axis.
SPATIAL: tuple[str, ...] = ("left of", "right of", "above", "below")
DEPTH: tuple[str, ...] = ("in front of", "behind")
RELATIONS: tuple[str, ...] = SPATIAL + DEPTH
INVERSE: dict[str, str] = dict(
    zip(RELATIONS, ("right of", "left of", "below", "above", "behind", "in front of"), strict=True)
)
#: The axis on which a relation is read.
AXIS: dict[str, str] = dict(
    zip(RELATIONS, [axis for axis in ("horizontal", "vertical", "depth") for _ in (0, 1)], strict=True)
)

_SIGNS = (",", ".", "?", ":")

_FUNCTION_WORDS = """
a an the of in on at to with without and or not no yes is are was there here it its this that these those
how many much what which where who does do has have by from than as only both either neither each every all any some
none other another same different left right above below front behind between near next top bottom side corner
centre center middle under over inside outside up down
"""

_TASK_WORDS = """
object objects thing things item items photo picture image scene frame video clip drawing background foreground
colour color colours colors shape shapes size sizes material materials texture pattern kind class number count total
add subtract take away remove plus minus more less fewer most least remain remaining added together equal
greater larger smaller bigger big little half twice first last before after then now moving moves move still
noisy dark bright light clean blurred blurry black grey gray dots dot stripes stripe stripy spotted glossy matte
true false answer question caption describe show shows shown showing see containing contains
"""


def all_words() -> tuple[str, ...]:
    """Every word, once: signs first, then the numbers 0 to 20 in digits, then words in alphabetical order."""
    attributes = {*SHAPES, *COLOURS, *SIZES, *MATERIALS, *NUMBERS, *PLURALS.values()}
    words = attributes.union(_FUNCTION_WORDS.split(), _TASK_WORDS.split())
    return (*_SIGNS, *map(str, range(21)), *sorted(words))


VOCABULARY: tuple[str, ...] = all_words()
