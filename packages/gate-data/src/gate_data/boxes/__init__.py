"""Boxes with labels: files of annotations, and the objects in images."""
