"""The suites: a record and a reader each."""

from __future__ import annotations

from eqben_builder.suites import caption_choice, picture_pairs
from eqben_builder.suites.suite import Average, Pooled, Suite, Without
from wary_files.errors import unknown

_ALL = Pooled(("*",))
_GROUPS = ("text", "image", "group")
_LEAVES = ("Location/center", "Location/mid", "Location/margin", "Size/large", "Size/medium", "Size/small")
_OBJECT = tuple(f"Object/{leaf}/*" for leaf in _LEAVES)
_ATTRIBUTE = tuple(f"Attribute/{leaf}/*" for leaf in ("action", "color", "material", "size", "state"))
_RELATION = ("Relation/action/*", "Relation/spatial/*")
_KUBRIC = ("kubric/location", "kubric/attribute", "kubric/counting")

_LISTED = (
    Suite(
        "sugarcrepe", "SugarCrepe", caption_choice.sugarcrepe,
        (
            Average("mean of 7", caption_choice.SUGARCREPE, "accuracy"),
            Average("pooled", _ALL, "accuracy"),
            Average("vl_compo", (Pooled(("replace_*",)), Pooled(("swap_*",)), Pooled(("add_*",))), "accuracy"),
        ),
        "MIT", "RAIVNLab/sugar-crepe at 0047054", "data/SUBSET.json (seven), COCO's val2017/",
        counts={"add_att": 692, "add_obj": 2062, "replace_att": 788, "replace_obj": 1652, "replace_rel": 1406,
                "swap_att": 666, "swap_obj": 245},
        note="the wrong caption is longer by an added object or attribute: see text-only baselines of add_obj, add_att",
    ),
    Suite(
        "sugarcrepe-pp", "SugarCrepe++", picture_pairs.sugarcrepe_pp,
        tuple(Average("mean of 5", picture_pairs.SUGARCREPE_PP, measure) for measure in ("both", "text only")),
        "CC BY 4.0", "Sri-Harsha/scpp at c083bbf", "data/SUBSET.json (five), COCO's val2017/",
        counts={"replace_att": 788, "replace_obj": 1652, "replace_rel": 1406, "swap_att": 666, "swap_obj": 245},
    ),
    Suite(
        "aro", "ARO", caption_choice.aro,
        (
            Average("vl_compo", caption_choice.ARO, "accuracy"),
            Average("vg_relation, paper", Without("vg_relation", caption_choice.symmetric_relations()), "accuracy"),
        ),
        "MIT", "mertyg/vision-language-models-are-bows at 81fdd20",
        "visual_genome_relation.json, visual_genome_attribution.json, images/; coco_order.json, flickr30k_order.json "
        "(a stored draw of the shuffled captions)",
        counts={"vg_relation": 23937, "vg_attribution": 28748, "coco_order": 25010, "flickr30k_order": 5000},
        authors_ties={"coco_order": "right", "flickr30k_order": "right"},
        macro={"vg_relation": 1, "vg_attribution": 25},
        note="vg_relation averages over all relations, as main_aro.py writes it; 'vg_relation, paper' leaves out "
        "the 157 that the authors' notebook calls symmetric",
    ),
    Suite(
        "crepe", "CREPE", caption_choice.crepe,
        (
            *(Average(f"productivity {kind}", f"prod/{kind}/*", "accuracy") for kind in ("atom", "swap", "negate")),
            Average("vl_compo", ("prod/atom/*", "prod/swap/*", "prod/negate/*"), "accuracy"),
        ),
        "none stated", "RAIVNLab/CREPE at 1fa81c4", "syst_ and prod_hard_negatives zips, Visual Genome's images",
        note="systematicity is meant for models trained on the data that the split's name says",
    ),
    Suite(
        "winoground", "Winoground", picture_pairs.winoground,
        tuple(Average("all", _ALL, measure) for measure in _GROUPS),
        "its own, gated", "facebook/winoground", "examples.jsonl with images/ or images.zip, or its parquet file",
    ),
    Suite(
        "eqben", "EqBen", picture_pairs.eqben,
        (
            *(Average("kubric", _KUBRIC, measure) for measure in _GROUPS),
            *(Average("mean of 5", ("ag", "youcook2", "gebc", _KUBRIC, "sd"), measure) for measure in _GROUPS[:2]),
            Average("vl_compo", ("ag", "youcook2", "gebc", _KUBRIC, "sd"), "group"),
        ),
        "as its sources'", "Wangt-CN/EqBen at ab6c79a", "its JSON files next to eqbenag/, eqbenyoucook2/, …",
        counts={"ag": 195872, "youcook2": 45849, "gebc": 1814, "kubric/location": 2000, "kubric/attribute": 2000,
                "kubric/counting": 2000, "sd": 1513},
    ),
    Suite(
        "valse", "VALSE", caption_choice.valse,
        (
            Average(
                "vl_compo",
                ("existence", "plurals", ("counting_hard", "counting_small_quant", "counting_adversarial"), "relations",
                 ("action_replacement", "actant_swap"), ("coreference_standard", "coreference_hard"), "foil_it"),
                "accuracy",
            ),
        ),
        "MIT", "Heidelberg-NLP/VALSE at 2152d90", "data/*.json (eleven) and images/",
        counts={"existence": 505, "plurals": 851, "counting_hard": 868, "counting_small_quant": 900,
                "counting_adversarial": 691, "relations": 535, "action_replacement": 648, "actant_swap": 949,
                "coreference_standard": 708, "coreference_hard": 104, "foil_it": 943},
    ),
    Suite(
        "bivlc", "BiVLC", picture_pairs.bivlc,
        (
            *(Average("all", _ALL, measure) for measure in _GROUPS),
            *(Average(kind, Pooled((f"{kind}/*",)), "group") for kind in ("replace", "swap", "add")),
        ),
        "MIT", "IMirandaM/BiVLC", "the hub's parquet files",
        counts={"replace/obj": 1200, "replace/rel": 462, "replace/att": 437, "add/obj": 399, "add/att": 76,
                "swap/att": 278, "swap/obj": 81},
        note="one image of a pair is a photograph, the other generated: telling them apart wins part of the score",
    ),
    Suite(
        "colorswap", "ColorSwap", picture_pairs.colorswap, (), "MIT", "Top34051/colorswap",
        "data/test.json and data/images/", counts={"test": 300},
    ),
    Suite(
        "naturalbench", "NaturalBench-Retrieval", picture_pairs.naturalbench, (), "Apache-2.0",
        "Baiqi-Li/NaturalBench at 9967605", "metadata.json and images/",
    ),
    Suite(
        "vismin", "VisMin", picture_pairs.vismin,
        tuple(Average("mean of 4", ("object", "attribute", "counting", "relation"), measure) for measure in _GROUPS),
        "CC BY 4.0", "mair-lab/vismin-bench", "data/test/*.arrow",
        counts={"object": 579, "attribute": 294, "counting": 589, "relation": 622},
        note="a discussion on its hub page says that images and captions are mixed up: look before trusting",
    ),
    Suite(
        "mmvp", "MMVP-VLM", picture_pairs.mmvp,
        tuple(Average("all", picture_pairs.MMVP, measure) for measure in _GROUPS),
        "MIT", "MMVP/MMVP_VLM at 7635005", "Questions.csv and MLLM_VLM Images/",
        counts=dict.fromkeys(picture_pairs.MMVP, 15),
        note="the authors' score is the image score; one pair is 6.7 points of a pattern",
    ),
    Suite(
        "cola", "Cola multi-object", picture_pairs.cola, (), "MIT", "arijitray1993/COLA at 1fa52fb",
        "data/COLA_multiobjects_matching_benchmark.json and Visual Genome's images", counts={"multi_object": 210},
        note="the authors' score is the image score",
    ),
    Suite(
        "vl-checklist", "VL-CheckList", caption_choice.checklist,
        (
            Average("object", _OBJECT, "accuracy"), Average("attribute", _ATTRIBUTE, "accuracy"),
            Average("relation", _RELATION, "accuracy"),
            Average("vl_compo", (_OBJECT, _ATTRIBUTE, _RELATION), "accuracy"),
        ),
        "none stated", "om-ai-lab/VL-CheckList at 6f8d6a3", "corpus/v1/, data/, and vg/, swig/, hake/",
        note="a few fixed words replace the right ones: a bigram model reaches 89 to 99.9 %; never read without it",
    ),
    Suite(
        "spec", "SPEC", picture_pairs.spec,
        tuple(
            Average(direction, tuple(f"{direction}/{subset}" for subset in picture_pairs.SPEC), "accuracy")
            for direction in ("image to text", "text to image")
        ),
        "Apache-2.0", "wjpoom/SPEC at ad982a4", "SUBSET/image2text.json, text2image.json, images",
        counts={
            f"{direction}/{subset}": number
            for direction in ("image to text", "text to image")
            for subset, number in zip(picture_pairs.SPEC, (1000, 2000, 1500, 1500, 4500, 4500), strict=True)
        },
    ),
    Suite(
        "whatsup", "What'sUp", caption_choice.whatsup,
        (
            Average("A and B", ("a", "b"), "accuracy"), Average("COCO", ("coco_one", "coco_two"), "accuracy"),
            Average("GQA", ("vg_one", "vg_two"), "accuracy"),
            Average("vl_compo", tuple(caption_choice.WHATSUP), "accuracy"),
        ),
        "MIT", "amitakamath/whatsup_vlms at 7c1f255",
        "six JSON files, controlled_images/, controlled_clevr/, val2017/, vg_images/",
        counts={"a": 412, "b": 408, "coco_one": 2247, "coco_two": 440, "vg_one": 1160, "vg_two": 291},
        authors_ties=dict.fromkeys(caption_choice.WHATSUP, "right"),
        note="202 published models lie within 4.1 points of chance on the average",
    ),
    Suite(
        "vsr", "VSR", picture_pairs.vsr, (), "Apache-2.0", "cambridgeltl/visual-spatial-reasoning at b27a0af",
        "data/splits/{random,zeroshot}/test.jsonl, COCO's train2017/ and val2017/",
        counts={"random": 2195, "zeroshot": 1222},
        note="no official score of a model that was not trained on it; the threshold is chosen on the other folds",
    ),
    Suite(
        "countbench", "CountBench", caption_choice.countbench, (Average("pooled", _ALL, "accuracy"),), "none stated",
        "teaching-clip-to-count.github.io", "CountBench.json, and images/ as far as the links still live",
        counts={str(number): 60 for number in range(2, 11)},
        note="images are links: say how many were there next to any score",
    ),
    Suite(
        "svo-probes", "SVO-Probes", picture_pairs.svo, (Average("vl_compo", ("subj", "verb", "obj"), "accuracy"),),
        "CC BY 4.0", "google-deepmind/svo_probes", "svo_probes.csv, and images/ as far as the links still live",
        note="images are links: no two people's subset is the same",
    ),
    Suite(
        "negbench", "NegBench", caption_choice.negbench,
        tuple(
            Average(name, Pooled((f"{name}/*",)), "accuracy") for name in caption_choice.NEGBENCH
        ),
        "MIT", "m1k2zoo/negbench at 2ac009b",
        "the tables of multiple choice of images (COCO_val_mcq_llama3.1_rephrased.csv, …), COCO's val2017/, VOC 2007's "
        "JPEGImages/",
        note="the authors' figures changed in 03/2025: features had not been normalised before",
    ),
    Suite(
        "imagecode", "ImageCoDe", picture_pairs.imagecode,
        (Average("pooled", _ALL, "accuracy"),),
        "AFL-3.0", "McGill-NLP/imagecode at 15b993f", "valid_data.json, image-sets/SET/img0.jpg to img9.jpg",
        note="validation, as the test's answers are not public; nine wrong images are neighbouring frames",
    ),
)  # fmt: skip


class _Suites(dict[str, Suite]):
    """Suites by id; of one that is not there, the nearest are named."""

    def __missing__(self, name: object) -> Suite:
        raise KeyError(str(unknown("suite", str(name), self)))


#: Id -> suite.
SUITES: dict[str, Suite] = _Suites({suite.id: suite for suite in _LISTED})
