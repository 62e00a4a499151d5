"""Zero-shot segmentation: class maps from words alone, by a stated protocol."""
