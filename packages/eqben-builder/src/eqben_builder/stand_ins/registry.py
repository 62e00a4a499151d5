"""Every drawn set by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eqben_builder.stand_ins import (
    boxes,
    captions,
    clips,
    described,
    few_shot,
    linking,
    maps,
    medical,
    natural,
    questions,
)
from eqben_builder.stand_ins.data import DrawnSet

_MAKERS: tuple[Callable[[int | None], DrawnSet], ...] = (
    natural.coloured_shapes,
    natural.patterned_shapes,
    natural.plates,
    natural.individuals,
    natural.places,
    described.makers,
    described.things,
    described.textures,
    described.counting,
    described.colours,
    described.shapes,
    few_shot.combinations,
    few_shot.birds,
    few_shot.planes,
    few_shot.surfaces,
    few_shot.mushrooms,
    few_shot.characters,
    few_shot.flowers,
    medical.hearts,
    medical.chests,
    medical.retinas,
    medical.moles,
    maps.shape_maps,
    maps.colours_of_places,
    maps.large_things,
    maps.streets,
    maps.dark_things,
    maps.things_and_stuff,
    maps.things_alone,
    maps.rooms,
    maps.room_depths,
    boxes.boxed_shapes,
    boxes.boxed_colours,
    boxes.boxed_lot,
    boxes.boxed_stars,
    questions.count_questions,
    questions.typed_questions,
    captions.pairs,
    captions.noisy_pairs,
    captions.captioned_scenes,
    captions.caption_choices,
    clips.animal_counts,
    clips.transformations,
    clips.moving_outlines,
    clips.meetings,
    linking.entities,
)
STAND_INS: Mapping[str, Callable[[int | None], DrawnSet]] = {make.__name__: make for make in _MAKERS}
"""From a set's name to the function that draws it, of at most so many samples in each split."""
