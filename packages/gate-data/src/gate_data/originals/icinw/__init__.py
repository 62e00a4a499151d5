"""How ELEVATER's 20 data sets are read: from ELEVATER's copies with index files, or as their authors give them.

Targets are in ELEVATER's order of classes in either case.
"""
