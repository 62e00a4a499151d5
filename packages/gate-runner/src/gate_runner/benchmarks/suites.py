"""The benchmarks of compositional suites: one for each that `eqben_builder.suites` reads, as data.

Titles, licences and files are those of the suites' own records; a test holds the two together. They stand here as text,
so that listings do without a reader.
"""

from __future__ import annotations

from gate_runner.benchmark import Benchmark

TAKEN = {"winoground": "winoground-suite", "eqben": "eqben-suite"}
"""Suites whose names GATE's benchmark and the pack of made-up pairs have already."""

_SUITES = (
    ("sugarcrepe", "SugarCrepe", "MIT", "Hsieh et al., SugarCrepe, NeurIPS 2023"),
    ("sugarcrepe-pp", "SugarCrepe++", "CC BY 4.0", "Dumpala et al., SUGARCREPE++, NeurIPS 2024"),
    (
        "aro",
        "ARO",
        "MIT",
        "Yuksekgonul et al., When and Why Vision-Language Models Behave like Bags-of-Words, ICLR 2023",
    ),
    ("crepe", "CREPE", "none stated", "Ma et al., CREPE, CVPR 2023"),
    ("winoground", "Winoground", "its own, gated", "Thrush et al., Winoground, CVPR 2022"),
    (
        "eqben",
        "EqBen",
        "as its sources'",
        "Wang et al., Equivariant Similarity for Vision-Language Foundation Models, ICCV 2023",
    ),
    ("valse", "VALSE", "MIT", "Parcalabescu et al., VALSE, ACL 2022"),
    ("bivlc", "BiVLC", "MIT", "Miranda et al., BiVLC, NeurIPS 2024"),
    ("colorswap", "ColorSwap", "MIT", "Burapacheep et al., ColorSwap, ACL Findings 2024"),
    ("naturalbench", "NaturalBench-Retrieval", "Apache-2.0", "Li et al., NaturalBench, NeurIPS 2024"),
    ("vismin", "VisMin", "CC BY 4.0", "Awal et al., VisMin, NeurIPS 2024"),
    ("mmvp", "MMVP-VLM", "MIT", "Tong et al., Eyes Wide Shut?, CVPR 2024"),
    ("cola", "Cola multi-object", "MIT", "Ray et al., Cola, NeurIPS 2023"),
    ("vl-checklist", "VL-CheckList", "none stated", "Zhao et al., VL-CheckList, EMNLP demonstrations 2022"),
    ("spec", "SPEC", "Apache-2.0", "Peng et al., Synthesize, Diagnose, and Optimize, CVPR 2024"),
    ("whatsup", "What'sUp", "MIT", 'Kamath et al., What\'s "up" with vision-language models?, EMNLP 2023'),
    ("vsr", "VSR", "Apache-2.0", "Liu et al., Visual Spatial Reasoning, TACL 2023"),
    ("countbench", "CountBench", "none stated", "Paiss et al., Teaching CLIP to Count to Ten, ICCV 2023"),
    (
        "svo-probes",
        "SVO-Probes",
        "CC BY 4.0",
        "Hendricks and Nematzadeh, Probing Image-Language Transformers, ACL Findings 2021",
    ),
    ("negbench", "NegBench", "MIT", "Alhamoud et al., Vision-Language Models Do Not Understand Negation, CVPR 2025"),
    ("imagecode", "ImageCoDe", "AFL-3.0", "Krojer et al., Image Retrieval from Contextual Descriptions, ACL 2022"),
)


def _benchmark(suite: str, title: str, licence: str, citation: str) -> Benchmark:
    return Benchmark(
        id=TAKEN.get(suite, suite),
        title=f"{title}, with text-only baselines",
        task="suite",
        metrics=("right",),
        sources={"local": f"gate_runner.suites.loading:{suite.replace('-', '_')}"},
        licence=licence,
        citation=citation,
    )


SUITES = (
    *(_benchmark(*suite) for suite in _SUITES),
    Benchmark(
        id="every-shape",
        title="Questions of every shape that suites ask, made on the spot",
        task="suite",
        metrics=("right",),
        sources={"micro": "gate_runner.suites.loading:every_shape"},
    ),
)
"""Every suite, and the one that is made on the spot."""

PUBLISHED = tuple(TAKEN.get(name, name) for name, *_ in _SUITES)
"""Those that read original files."""
