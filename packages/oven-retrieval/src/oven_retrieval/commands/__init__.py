"""The commands of the command line; nothing heavy is imported for their help."""
