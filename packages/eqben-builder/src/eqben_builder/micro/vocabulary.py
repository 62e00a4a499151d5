"""The finite list of words that captions, class prompts and simple questions about micro scenes may use."""

from __future__ import annotations

from eqben_builder.micro.attributes import COLOURS, MATERIALS, NUMBERS, PLURALS, SHAPES, SIZES

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
    """Every word, once: signs first, then the numbers 0 to 20 in digits, then words in alphabetical order.

    Example:
        >>> {"circle", "circles", "ten", "?"} <= set(all_words())
        True
    """
    attributes = {*SHAPES, *COLOURS, *SIZES, *MATERIALS, *NUMBERS, *PLURALS.values()}
    words = attributes.union(_FUNCTION_WORDS.split(), _TASK_WORDS.split())
    return (*_SIGNS, *map(str, range(21)), *sorted(words))


VOCABULARY: tuple[str, ...] = all_words()
