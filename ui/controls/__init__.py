"""Widgets that several pages share: masks, switches, matrices of one's own, a short sentence."""
