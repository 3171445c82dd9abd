"""The page Head."""
