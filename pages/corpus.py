"""What each head does over a whole corpus: one finished run, read from its folder."""

from ui.views.corpus import show_corpus
from ui.views.heading import show_heading

show_heading("Corpus", "What a head does in general: over many texts, not over one sentence.")
show_corpus()
