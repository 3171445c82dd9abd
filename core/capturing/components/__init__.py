"""What each component of a network wrote into the residual stream, and what a later number owes to it."""
