"""Makes the letters of pictures (core/figures/letters/) from the Source Sans that Streamlit brings along.

    python -m tools.letters

They keep the widths and shapes of the page's, in two weights that do not vary: PDF and Pillow read no others. What is left out
are rare letters, and rules for pairs of letters, which PDF would not follow. A letter that is missing is as wide as it is high.
The licence reserves the name "Source" for unchanged files.
"""

from pathlib import Path

import streamlit
from fontTools.subset import Options, Subsetter, parse_unicodes
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

from core.figures.typeface import FILES

SOURCE = next((Path(streamlit.__file__).parent / "static" / "static" / "media").glob("SourceSansVF-Upright.*.woff2"))
# Latin with Romanian and Vietnamese, Greek, Cyrillic; punctuation, currencies, arrows, mathematics, shapes.
LETTERS = "0000-017F,0192,0218-021B,0370-03FF,0400-045F,0490-0491,1EA0-1EF9,2000-27FF"
NAMES = {1: "Headlight Sans", 3: "Headlight Sans {}", 4: "Headlight Sans {}", 6: "HeadlightSans-{}"}
KEPT = [0, 5, 13, 14]  # numbers of names: copyright, version, licence


def main() -> None:
    for weight, file in FILES.items():
        font = instantiateVariableFont(TTFont(SOURCE, recalcTimestamp=False), {"wght": weight})
        font.flavor = None
        options = Options(layout_features=[], hinting=False, notdef_outline=True, name_IDs=KEPT)
        options.drop_tables += ["BASE", "GDEF", "GPOS", "GSUB", "STAT"]
        letters = Subsetter(options)
        letters.populate(unicodes=parse_unicodes(LETTERS))
        letters.subset(font)
        style = file.stem.rpartition("-")[2]
        for number, name in {**NAMES, 2: style}.items():
            font["name"].setName(name.format(style), number, 3, 1, 0x409)
        font["hmtx"][".notdef"] = (font["head"].unitsPerEm, font["hmtx"][".notdef"][1])
        font.save(file)


if __name__ == "__main__":
    main()
