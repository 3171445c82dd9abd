"""The page Claims: sentences about heads, each tested on texts that it has not seen."""

from ui.presenting import show_heading
from ui.views.claims.page import show_claims

show_heading("Claims", "Sentences about heads, tested.")
show_claims()
