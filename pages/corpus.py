"""The page Corpus: what each head does over many texts, read from the folder of a finished run, or run here."""

from ui.presenting import show_heading
from ui.views.corpus.run import show_corpus

show_heading("Corpus", "What each head does over many texts.")
show_corpus()
