"""The prompts of ELEVATER's five sources: how many there are, how many are too long, and what encoding them costs.

The sources are no knowledge, WordNet's path, WordNet's definition, Wiktionary and GPT-3; a class that a source does
not know has its plain prompts there, as in ELEVATER's toolkit, which runs each source by itself. The text tower is
open_clip's ViT-B-32 with random weights: its cost is that of the trained one, and so is the effect of padding. The cost
is that of a random part of the different texts: once each and padded to the longest of a batch, against each prompt
that has one of them, padded to 77.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

import numpy as np
from measurement import arguments, knowledge_folder, write

from knowledge_prompts import (
    PromptSet,
    StoredKnowledge,
    build_prompts,
    built_in_sets,
    class_embeddings,
    load_class_prompts,
    open_clip_text,
    stored_sources,
)
from knowledge_prompts.encoding.truncation import truncation_report
from knowledge_prompts.prompts.class_prompts import without_aliases

GATE = 1e-6
BATCH = 32


def prompt_sets(folder: Path) -> dict[str, list[PromptSet]]:
    """For each data set its prompts under each of the five sources."""
    collected: dict[str, list[PromptSet]] = {}
    for name in built_in_sets():
        class_prompts = without_aliases(load_class_prompts(name))
        if not class_prompts.classes or name == "imagenet-1k":
            continue
        collected[name] = [build_prompts(class_prompts)]
        for source in stored_sources(folder, name):
            if source.name == "gpt3":  # the toolkit keeps a class's equal answers apart
                answers = [
                    StoredKnowledge({name: source.items(name)[i : i + 1] for name in source.classes}, name="gpt3")
                    for i in range(5)
                ]
                collected[name] += [build_prompts(class_prompts, [answer]) for answer in answers]
            else:
                collected[name].append(build_prompts(class_prompts, [source]))
    return collected


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--sample", type=int, default=384, help="different texts to draw")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    import open_clip
    import torch

    torch.set_num_threads(args.threads)
    sets = prompt_sets(knowledge_folder(args.data))
    prompts = [prompt for group in sets.values() for prompt_set in group for prompt in prompt_set]
    unique = len({prompt.text for prompt in prompts})
    tokenizer = open_clip.SimpleTokenizer()
    long: dict[str, object] = {}
    for name, group in sets.items():
        reports = [truncation_report(prompt_set, tokenizer) for prompt_set in group]
        classes = {c for report in reports for c in report.classes}
        if classes:
            long[name] = {"prompts": sum(r.long_prompts for r in reports), "classes": len(classes)}

    torch.manual_seed(0)
    model = open_clip.create_model("ViT-B-32").eval()
    texts = set(random.Random(0).sample(sorted({prompt.text for prompt in prompts}), args.sample))
    drawn = [prompt for prompt in prompts if prompt.text in texts]
    # Each drawn prompt is a class of its own, so that embeddings compare text by text.
    names = tuple(str(i) for i in range(len(drawn)))
    sample = PromptSet(names, tuple((prompt._replace(class_index=i),) for i, prompt in enumerate(drawn)))

    def padded() -> np.ndarray:
        rows = []
        for start in range(0, len(drawn), BATCH):
            with torch.inference_mode():
                ids = tokenizer([prompt.text for prompt in drawn[start : start + BATCH]])
                rows.append(torch.nn.functional.normalize(model.encode_text(ids), dim=-1).numpy())
        return np.concatenate(rows)

    def ours() -> np.ndarray:
        encode = open_clip_text(model)
        embeddings = class_embeddings(encode, sample, tokenize=tokenizer, batch_size=BATCH)
        return embeddings.weights

    difference = float(np.abs(padded() - ours()).max())
    if difference > GATE:
        raise SystemExit(f"embeddings differ by {difference:.1e}, more than {GATE:.0e}; no time is reported")
    seconds: dict[str, list[float]] = {"padded": [], "ours": []}
    for _ in range(args.repeats):
        for name, run in (("padded", padded), ("ours", ours)):
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    figures: dict[str, object] = {
        "prompts": len(prompts),
        "unique_prompts": unique,
        "too_long": long,
        "drawn_texts": args.sample,
        "drawn_prompts": len(drawn),
        "batch_size": BATCH,
        "threads": args.threads,
        "repeats": args.repeats,
        "largest_difference": difference,
        "cpu_s": {name: [round(value, 3) for value in values] for name, values in seconds.items()},
        "cpu_ratio_padded_to_ours": round(medians["padded"] / medians["ours"], 2),
    }
    write("five_sources", figures, "open_clip_torch", "torch", "numpy")


if __name__ == "__main__":
    main()
