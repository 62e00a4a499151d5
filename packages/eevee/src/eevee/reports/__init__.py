"""Results in words, images and pages."""
