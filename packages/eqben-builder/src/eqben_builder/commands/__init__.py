"""The commands of `eqben`, which `eqben_builder.cli` puts together."""
