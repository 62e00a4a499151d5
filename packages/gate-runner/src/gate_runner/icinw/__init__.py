"""ELEVATER's tables, figures and submission files, from the results of a sweep over image classification."""
