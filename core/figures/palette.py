"""The colours of every picture, chosen to be told apart with any kind of colour vision, on white, on black and projected."""

# Weights, from 0 up: Viridis grows evenly in lightness for every kind of colour vision and holds no grey.
SEQUENTIAL = "Viridis"

# Signed numbers around 0: blue below, almost white at 0, orange above; safe for the common kinds of colour blindness.
DIVERGING = [[0.0, "#2d6cb3"], [0.25, "#93b8dd"], [0.5, "#f7f7f5"], [0.75, "#f0b06a"], [1.0, "#c25a00"]]

# Neither scale holds a grey, so grey can only mean: this pair is forbidden. See-through, to suit any background.
FORBIDDEN = "rgba(128, 132, 142, 0.28)"
ALLOWED = "#3aa394"

ABOVE, BELOW, TOTAL = "#d9822b", "#3f7fc4", "#7a8290"
PIN = "#e6007e"
INK = "#808590"  # axis text, readable on white and on near-black
GRID = "rgba(128, 132, 142, 0.2)"

# Told apart by lightness too, for every kind of colour vision and for print.
SERIES = (BELOW, ABOVE, "#3aa394", "#a04fa8", TOTAL, "#c9b22e")

# A line over cells has to be seen on every colour there is, and no single colour is: a dark one in a white casing.
ON_ANY_CELL = ({"color": "#ffffff", "width": 4}, {"color": "#1d2430", "width": 2})
