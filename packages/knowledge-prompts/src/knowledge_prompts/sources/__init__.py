"""Where knowledge about classes comes from."""
