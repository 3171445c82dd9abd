"""From widgets to what a page shows: sources, masks, switches."""
