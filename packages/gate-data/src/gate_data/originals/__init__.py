"""Readers of data sets' own files, as their authors distribute them."""
