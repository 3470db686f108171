"""Reports for people and programs: one file a format, all from the same Report."""
