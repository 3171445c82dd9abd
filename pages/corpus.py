"""What each head does over a whole corpus: one finished run, read from its folder."""

from ui.views.common.heading import show_heading
from ui.views.corpus.run import show_corpus

show_heading("Corpus", "What a head does in general: over many texts, not over one sentence.")
show_corpus()
