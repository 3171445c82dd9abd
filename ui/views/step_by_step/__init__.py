"""The page Step by step: the equation, one stage large, the tour, and a head's weight matrices."""
