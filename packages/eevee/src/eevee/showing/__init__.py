"""Results in words, pictures and pages."""
