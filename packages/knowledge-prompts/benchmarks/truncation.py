"""Which prompts do not fit into CLIP's 77 tokens: Stanford Cars with GPT-3 knowledge, by class, in both forms."""

from __future__ import annotations

from measurement import arguments, knowledge_folder, write

from knowledge_prompts import build_prompts, load_class_prompts, stored_sources
from knowledge_prompts.encoding.tokens import token_rules
from knowledge_prompts.encoding.truncation import truncation_report


def main() -> None:
    parser = arguments(__doc__ or "")
    folder = knowledge_folder(parser.parse_args().data)
    import open_clip

    tokenizer = open_clip.SimpleTokenizer()
    rules = token_rules(tokenizer)
    gpt3 = next(source for source in stored_sources(folder, "stanford-cars") if source.name == "gpt3")
    cars = load_class_prompts("stanford-cars")
    figures: dict[str, object] = {}
    for style in ("paper", "toolkit"):
        prompts = build_prompts(cars, [gpt3], style=style)
        report = truncation_report(prompts, tokenizer)
        counted = sum(len(row) > 77 for row in rules.ids([prompt.text for prompt in prompts]))
        if counted != report.long_prompts:
            raise SystemExit(f"{counted} prompts are too long, but {report.long_prompts} are reported")
        # Cut without its end token, a text is read where its largest id stands: at the start token, for all alike.
        starts = {max(range(77), key=row[:77].__getitem__) for row in rules.ids([p.text for p in report.long])}
        figures[style] = {
            "prompts": report.prompts,
            "too_long": report.long_prompts,
            "different_texts_too_long": len(report.long),
            "classes": report.classes,
            "position_that_clip_reads_without_the_end_token": sorted(starts),
        }
    write("truncation", figures, "open_clip_torch")


if __name__ == "__main__":
    main()
