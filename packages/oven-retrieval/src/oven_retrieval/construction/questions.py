"""A question for each label of a recognition data set, from its super-category."""

from __future__ import annotations

from oven_retrieval.tokens import fold

_SPECIES = {
    "plant": ("plant", "plantae", "flora", "flower", "tree"),
    "bird": ("bird", "aves"),
    "mammal": ("mammal", "mammalia"),
    "reptile": ("reptile", "reptilia"),
    "amphibian": ("amphibian", "amphibia"),
    "insect": ("insect", "insecta"),
    "spider or its relative": ("arachnid", "arachnida"),
    "fish": ("fish", "actinopterygii"),
    "mollusc": ("mollusc", "mollusk", "mollusca"),
    "fungus": ("fungus", "fungi"),
    "animal": ("animal", "animalia", "fauna"),
}
_OTHERS = {
    "what is the model of this aircraft?": ("aircraft", "airplane", "airliner"),
    "what is the make and model of this car?": ("car", "automobile"),
    "what is the type of this vehicle?": ("vehicle",),
    "what is the name of this dish?": ("food", "dish"),
    "what sport is shown in this image?": ("sport", "sports"),
    "what is the name of this building?": ("building", "bridge"),
    "what is the name of this landmark?": ("landmark", "monument"),
    "what kind of place is shown in this image?": ("scene", "place"),
    "what is the name of this location?": ("location", "park", "lake", "river", "mountain"),
    "who is the person in this image?": ("person", "human"),
    "what activity is shown in this image?": ("act", "activity"),
    "what event is shown in this image?": ("event",),
    "what is the object in this image?": ("object", "item", "artifact", "others"),
}
TEMPLATES: dict[str, str] = {
    **{name: f"what is the species of the {kind} in this image?" for kind, names in _SPECIES.items() for name in names},
    **{name: question for question, names in _OTHERS.items() for name in names},
}
"""Folded super-category -> question."""
FALLBACK = "what is the {category} in this image?"
WITHOUT_CATEGORY = "what is the main object in this image?"


def make_question(category: str) -> str:
    """The question that leads to a label of this super-category.

    Source: OVEN's appendix 10.1, whose one printed template is the first of the example.
    """
    template = TEMPLATES.get(fold(category))
    if template is not None:
        return template
    return FALLBACK.format(category=fold(category)) if fold(category) else WITHOUT_CATEGORY
