"""What several pages show: headings, figures, tables and certificates."""
