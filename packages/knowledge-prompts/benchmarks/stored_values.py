"""Live WordNet against ELEVATER's stored definitions and paths, and the coverage that underscores add."""

from __future__ import annotations

from measurement import arguments, knowledge_folder, write

from knowledge_prompts import WordNet
from knowledge_prompts.sources.elevater_files import read_external


def main() -> None:
    parser = arguments(__doc__ or "")
    folder = knowledge_folder(parser.parse_args().data)
    compatible, live = WordNet(compatible=True), WordNet()
    stored = definitions = paths = invented = classes = covered_stored = covered = 0
    for file in sorted((folder / "external").glob("*_knowledge.tsv")):
        in_suite = not file.name.startswith("imagenet-1k")
        for record in read_external(file):
            definition, path = compatible.definition(record.class_name), compatible.path(record.class_name)
            if record.wordnet_definition:
                stored += 1
                definitions += definition == record.wordnet_definition
                paths += tuple(path) == record.wordnet_path
            else:
                invented += bool(definition or path)
            if in_suite:
                classes += 1
                covered_stored += bool(record.wordnet_definition)
                covered += bool(live.definition(record.class_name))
    write(
        "stored_values",
        {
            "stored": stored,
            "definitions_equal": definitions,
            "paths_equal": paths,
            "found_where_nothing_is_stored": invented,
            "classes_of_the_20_data_sets": classes,
            "covered_by_the_stored_files": covered_stored,
            "covered_live": covered,
            "wordnet": str(live.files.folder),
        },
    )


if __name__ == "__main__":
    main()
