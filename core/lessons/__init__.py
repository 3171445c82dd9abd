"""The experiments of the lessons: a module for each, named like its page."""
