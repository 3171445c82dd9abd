"""Each card of the gallery says what core measures, and shows a picture of it.

`python -m tests.test_gallery --write` paints them.
"""

import sys

from core.gallery import Passes
from tests.gallery_pictures import as_png, painted
from ui.gallery.views import VIEWS

if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    ran = Passes()
    for one in VIEWS:
        one.picture.write_bytes(as_png(painted(one.word, ran)))
        print(one.word, one.picture.stat().st_size)
