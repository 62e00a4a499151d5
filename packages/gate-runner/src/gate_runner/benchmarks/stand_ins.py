"""Which synthetic stand-in takes the place of each of GATE's data sets."""

from __future__ import annotations

_MADE = {
    "cifar100": "classification:cifar100",
    "food101": "natural:food101",
    "happy": "natural:happy",
    "imagenet1k": "classification:imagenet1k",
    "places365": "natural:places365",
    "acdc": "cardiac:acdc",
    "chexpert": "medical:chexpert",
    "diabetic": "medical:diabetic",
    "ham10k": "medical:ham10k",
    "clevr": "questions:clevr",
    "clevr-math": "arithmetic:clevr_math",
    "flickr30k": "matching:flickr30k",
    "nycc": "matching:nycc",
    "winoground": "matching:winoground",
    "hmdb51": "actions:hmdb51",
    "kinetics": "actions:kinetics",
    "ucf": "actions:ucf",
    "iwildcam": "video:iwildcam",
    "aircraft": "few_shot_plans:aircraft",
    "cubirds": "few_shot:cubirds",
    "dtextures": "few_shot_plans:dtextures",
    "fungi": "few_shot_plans:fungi",
    "mini": "few_shot:mini",
    "omniglot": "few_shot_plans:omniglot",
    "vgg": "few_shot_plans:vgg",
    "ade20k": "segmentation:ade20k",
    "cityscapes": "scenes:cityscapes",
    "coco-10k": "scenes:coco_10k",
    "coco-164k": "scenes:coco_164k",
    "nyu": "scenes:nyu",
    "pascal": "scenes:pascal",
}
STAND_INS = {name: f"gate_runner.micro.{function}" for name, function in _MADE.items()}
"""``module:name`` of a function from a `gate_data.request.DataRequest` to data, by the data set's id."""
