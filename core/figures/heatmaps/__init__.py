"""Heatmaps: matrices as pictures, query rows from the top down, key columns from left to right."""
