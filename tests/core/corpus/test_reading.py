"""Texts out of files of every format, and what is said of those that cannot be read. Places are those of the files."""

import bz2
import csv
import gzip
import json
import os
import re
import tracemalloc
from functools import partial
from itertools import product, starmap

import conllu
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from core.claims.facts import Annotation
from core.corpus import reading as reading_module
from core.corpus.reading import READERS, find_files, read_texts
from core.corpus.settings import RunSettings
from core.models.passages import Location, Passage, Problem, Relation
from tests.refusals import refused

TEXTS = ["The cat saw.", "Ein Café in 東京 😀", 'two\nlines, "quoted"', "last"]


def read(folder, name, column="text", by="document"):
    return [*read_texts(str(folder), name, RunSettings(column=column, by=by))]


def texts_of(found):
    assert all(isinstance(one, Passage) for one in found), found
    return [(one.place.row, one.text) for one in found]


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def json_lines(texts, column="text"):
    return "".join(json.dumps({"id": 1, column: text}, ensure_ascii=False) + "\n" for text in texts)


ZSTD = partial(pa.compress, codec="zstd", asbytes=True)
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": ZSTD}


# --- every format


PLAIN = {
    ".txt": (TEXTS[2], [(1, TEXTS[2])]),
    ".csv": ('id,text\n1,one\n2,"two\nlines, ""quoted"""\n3,\n4,東\n', [(1, "one"), (2, TEXTS[2]), (4, "東")]),
    ".tsv": ("text\tid\nthe, cat\t1\n", [(1, "the, cat")]),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), (json_lines(TEXTS), [*enumerate(TEXTS, start=1)])),
}


@pytest.mark.parametrize(("ending", "packing"), [*product(PLAIN, PACKERS)])
def test_packed_or_not(tmp_path, ending, packing):
    content, expected = PLAIN[ending]
    name = f"a{ending}{packing}"
    put(tmp_path, name, PACKERS[packing](content.encode()))
    found = read(tmp_path, name)
    assert texts_of(found) == expected
    assert {one.place.file for one in found} == {name}


def test_plain_text_by_document_paragraph_and_line(tmp_path):
    put(tmp_path, "a.md", "\ufeffone\ntwo\r\n\r\n \n\nthree\n")
    assert texts_of(read(tmp_path, "a.md")) == [(1, "one\ntwo\r\n\r\n \n\nthree\n")]
    assert texts_of(read(tmp_path, "a.md", by="paragraph")) == [(1, "one\ntwo\r\n"), (2, "three\n")]
    assert texts_of(read(tmp_path, "a.md", by="line")) == [(1, "one\n"), (2, "two\r\n"), (6, "three\n")]


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
def test_parquet(tmp_path, compression):
    rows = [f"text {number}" for number in range(600)]
    rows[5] = None
    pq.write_table(pa.table({"id": range(600), "text": rows}), tmp_path / "a.parquet", compression=compression)
    found = read(tmp_path, "a.parquet")
    assert found[5] == Problem(Location("a.parquet", 6), "'text' holds no text.")
    assert texts_of(found[:5] + found[6:]) == [*enumerate(rows[:5], start=1), *enumerate(rows[6:], start=7)]


# --- CoNLL-U

SENTENCES = """\
# sent_id = 1
# text = Don't sleep, cats.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\tSpaceAfter=No
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tsleep\tsleep\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
4\t,\t,\tPUNCT\t_\t_\t5\tpunct\t_\t_
5\tcats\tcat\tNOUN\t_\t_\t3\tvocative:x\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

# no word of it is left
1\tbroken

1\tKim\tKim\tPROPN\t_\t_\t2\tnsubj:pass\t_\t_
2\tseen\tsee\tVERB\t_\t_\t0\troot\t_\t_
2.1\tseen\tsee\tVERB\t_\t_\t_\t_\t2:conj\t_
3\t東京\t東京\tPROPN\t_\t_\t2\tobj\t_\t_
"""


@pytest.mark.parametrize("packing", PACKERS)
def test_annotated_sentences(tmp_path, packing):
    """Words of what is written as one in their places, empty nodes left out, subtypes as what they are subtypes of."""
    name = f"a.conllu{packing}"
    put(tmp_path, name, PACKERS[packing](SENTENCES.encode()))
    one, broken, other = read(tmp_path, name)
    assert one.text == "Don't sleep, cats."
    assert [one.text[start:end] for start, end in one.words] == ["Do", "n't", "sleep", ",", "cats", "."]
    arcs = (0, 2, "aux"), (1, 2, "advmod"), (3, 4, "punct"), (4, 2, "vocative"), (5, 2, "punct")
    assert one.relations == tuple(starmap(Relation, arcs))
    assert isinstance(broken, Problem)
    assert broken.place == Location(name, 2)
    assert other.place == Location(name, 3)
    assert other.text == "Kim seen 東京"
    assert [other.text[start:end] for start, end in other.words] == ["Kim", "seen", "東京"]
    assert other.relations == (Relation(0, 1, "nsubj"), Relation(2, 1, "obj"))
    assert other.tags == ("PROPN", "VERB", "PROPN")


def line_of(number, form, head=0, relation="root", misc="_"):
    return "\t".join([number, form, "_", "X", "_", "_", str(head), relation, "_", misc])


def one_line(number, form, misc="_"):
    """What is written as one, or an empty node."""
    return line_of(number, form, "_", "_", misc)


AU = [
    line_of("1", "Va", misc="SpaceAfter=No"),
    one_line("2-3", "au"),
    line_of("2", "à", 1, "case"),
    line_of("3", "le", 2, "det"),
]
NAMED = [line_of("1", "Two  blanks\u2028and\x85one"), line_of("2", "or"), line_of("3", "more")]
# What is written: the lines, the text, and its words with | between them.
WRITTEN = {
    "words that are written as one": (AU, "Vaau", "Va|au|au"),
    "beside words and a mark that are not": (
        [*AU, line_of("4", "marché", misc="SpaceAfter=No"), line_of("5", ".")],
        "Vaau marché.",
        "Va|au|au|marché|.",
    ),
    "a text says the blanks": (["# text = Va  au\xa0 ", *AU], "Va  au", "Va|au|au"),
    "a text with = in it": (
        ["#text=a = b", *(line_of(str(at), form) for at, form in enumerate("a=b", start=1))],
        "a = b",
        "a|=|b",
    ),
    "in its places": (
        [
            one_line("1-2", "don't", "SpaceAfter=No"),
            line_of("1", "do"),
            line_of("2", "n't", misc="SpaceAfter=No"),
            line_of("3", "!"),
        ],
        "don't!",
        "do|n't|!",
    ),
    "blanks after words within are not read": (
        [one_line("1-2", "cannot"), line_of("1", "can"), line_of("2", "not", misc="SpaceAfter=No"), line_of("3", "be")],
        "cannot be",
        "can|not|be",
    ),
    "empty nodes": (
        [one_line("0.1", "Then"), *AU, one_line("3.1", "nothing", "SpaceAfter=No"), line_of("4", "tard")],
        "Vaau tard",
        "Va|au|au|tard",
    ),
    "blanks that are written out": (
        [
            line_of("1", "a", misc=r"SpacesBefore=\s|SpacesAfter=\s\s\n"),
            line_of("2", "b", misc=r"Gloss=x=y|SpacesAfter=\p\\"),
            line_of("3", "c", misc=r"SpacesAfter=\n"),
        ],
        "a  \nb|\\c",
        "a|b|c",
    ),
    "blanks within words that are written out": (
        [line_of("1", "10 000", misc=r"SpacesInToken=10\s\s000"), line_of("2", "km")],
        "10  000 km",
        "10  000|km",
    ),
    "blanks within words": (NAMED, "Two  blanks\u2028and\x85one or more", "Two  blanks\u2028and\x85one|or|more"),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_sentence_is_read_as_it_is_written(tmp_path, name, ends):
    lines, text, words = WRITTEN[name]
    put(tmp_path, "a.conllu", "\ufeff" + ends.join([*lines, "", *AU, ""]))
    one, other = read(tmp_path, "a.conllu")
    assert (one.text, "|".join(one.text[start:end] for start, end in one.words)) == (text, words)
    assert other.text == "Vaau"
    for found, of in ((other, AU), *([] if lines is NAMED else [(one, lines)])):  # conllu parts columns at two blanks
        (parsed,) = conllu.parse("\n".join(of))
        tokens = [token for token in parsed if isinstance(token["id"], int)]
        assert found.tags == tuple(token["upos"] for token in tokens)
        heads = [(token["id"] - 1, token["head"] - 1, token["deprel"]) for token in tokens if token["head"]]
        assert found.relations == tuple(starmap(Relation, heads))


def test_a_token_belongs_to_every_word_that_is_written_as_it(tmp_path):
    """The relations of à and le are those of the token of "au", which is not a pair with itself."""
    made = Tokenizer(WordLevel({"va": 0, "au": 1, "lit": 2}))
    made.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    lines = [one_line("2-3", "au"), line_of("2", "à", 4, "case"), line_of("3", "le", 2, "det")]
    put(tmp_path, "a.conllu", "\n".join([line_of("1", "va"), *lines, line_of("4", "lit", 1, "obl")]))
    (passage,) = read(tmp_path, "a.conllu")
    annotation = Annotation.of(tokenizer, passage, 3)
    assert annotation.belongs.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert annotation.pairs(annotation.along("case")).tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert not annotation.pairs(annotation.along("det")).any()
    assert annotation.tokens(np.array([0, 0, 1, 0], bool)).tolist() == [0, 1, 0]


WRONG = {
    "another text": (["# text = Va du", *AU], "# text goes on with ' du' where its words have 'au'"),
    "a longer text": (["# text = Va au lit", *AU], "# text goes on with ' lit' after its words"),
    "a shorter text": (["# text = Va", *AU], "# text goes on with '' where its words have 'au'"),
    "an empty text": (["# text = ", *AU], "# text goes on with '' where its words have 'Va'"),
    "two texts": (["# text = Vaau", "# text = Va au", *AU], "two different lines of # text"),
    "a word twice": ([*AU, AU[-1]], "word 4 is numbered 3"),
    "a word that is left out": ([line_of("2", "cat")], "word 1 is numbered 2"),
    "only a part of what is written as one": (
        [one_line("1-3", "au"), *AU[:1]],
        "it has 1 words, of which one is written as part of 3",
    ),
    "what is written as one after its words": (
        [*AU[:1], one_line("1-2", "Va")],
        "words 1 to 2 are written as one, and do not follow word 1",
    ),
    "one within the other": ([one_line("1-3", "au"), AU[0], one_line("2-3", "le")], "words 2 to 3 are written as one"),
    "words that are left out": (["# text = __ _", line_of("1", "__"), line_of("2", "_")], "its words are left out"),
    "a word without letters": ([line_of("1", "")], "word 1 is empty"),
    "nine columns": ([AU[0].removesuffix("\tSpaceAfter=No")], "a line has 9 columns, and should have 10"),
    "blanks for tabs": ([AU[0].replace("\t", "  ")], "a line has 1 columns"),
    "a head that is not there": ([line_of("1", "cat", 2, "x")], "word 1 depends on word 2, which is not there"),
    "a blank that is not known": ([line_of("1", "a", misc=r"SpacesAfter=\x"), line_of("2", "b")], "'x'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sentence_that_contradicts_itself_is_told(tmp_path, name):
    lines, words = WRONG[name]
    put(tmp_path, "a.conllu", "\n".join([*lines, "", *AU]))
    problem, after = read(tmp_path, "a.conllu")
    assert isinstance(problem, Problem)
    assert problem.why.startswith("The sentence is not CoNLL-U: ")
    assert words in problem.why
    assert after.text == "Vaau"


@pytest.mark.parametrize(
    "line",
    [
        "1\tcat\t_\t_\t_\t_\t9\tnsubj\t_\t_",  # a head that is not there
        "1\tcat\t_\t_\t_\t_\tx\tnsubj\t_\t_",
        "1\tcat",
        "cat",
        "# a remark alone",
        "1-2\tcats\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tcat\t_\t_\t_\t_\t0\t_\t_\t_",
        "1\tcat\t_\t_\t_\t_\t_\t_\t_\t_",
    ],
)
def test_a_sentence_that_is_none_does_not_hide_the_next(tmp_path, line):
    put(tmp_path, "a.conllu", f"{line}\n\n1\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n")
    *before, last = read(tmp_path, "a.conllu")
    assert last == Passage(Location("a.conllu", 2), 0, "dog", ((0, 3),), (), ("_",))
    assert all(isinstance(one, Problem) or one.text == "cat" for one in before)
    assert len(before) == ("#" not in line)


# --- what cannot be read


def test_what_stands_before_the_end_of_a_file_that_was_cut_off_is_read(tmp_path):
    packed_up = gzip.compress(json_lines([f"text {number * 7919 % 1000}" for number in range(20_000)]).encode())
    put(tmp_path, "a.jsonl.gz", packed_up[: len(packed_up) // 2])
    *before, last = read(tmp_path, "a.jsonl.gz")
    assert texts_of(before)[:2] == [(1, "text 0"), (2, "text 919")]
    assert isinstance(last, Problem)
    assert last.place == Location("a.jsonl.gz", 0)
    assert last.why.startswith("The file cannot be read")


ROOT = "\t_\t_\t_\t_\t0\t_\t_\t_"  # of the only word of a sentence
BROKEN = "Café".encode("latin-1")
NOT_UTF8 = "is not UTF-8: 'utf-8' codec can't decode byte 0xe9 in position "
NO_COLUMN = "There is no column 'text', only 'id', 'body'."
UNREADABLE = "The file cannot be read: "
NO_JSON = "The line is not JSON: "


def parquet(texts, column="text"):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({column: texts}), sink)
    return sink.getvalue().to_pybytes()


def not_utf8_in_parquet():
    offsets = np.array([0, 3, 3 + len(BROKEN), 8 + len(BROKEN)], np.int32)
    return parquet(pa.StringArray.from_buffers(3, *map(pa.py_buffer, (offsets, b"one" + BROKEN + b"three"))))


def twice_in_parquet():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([pa.array(["one"]), pa.array(["two"])], ["text", "text"]), sink)
    return sink.getvalue().to_pybytes()


THREE, LINE_2 = {1: "one", 3: "three"}, {2: f"Line 2 {NOT_UTF8}"}
# What is wrong: the file and what a text is in it -> (its bytes or None, the rows of its texts, how problems of rows begin).
# Row 0 is the file.
UNREAD = {
    "lines that are not JSON: a.jsonl": (
        b'{"text": "one"}\n{"text": "tw\n["text"]\n{"text": 3}\n\n' + b"[" * 99999 + b'\n{"text": "three"}\n',
        {1: "one", 7: "three"},
        {2: NO_JSON, 3: "The line is not a JSON object but list.", 4: "'text' holds no text.", 6: NO_JSON},
    ),
    "no such column: a.jsonl": (b'{"id": 1, "body": "one"}', {}, {1: NO_COLUMN}),
    "no such column: a.csv": (b"id,body\n1,one\n", {}, {1: NO_COLUMN}),
    "no such column: a.parquet": (parquet(["one"], "body"), {}, {0: f"{UNREADABLE}There is no column 'text', only"}),
    "an empty file: a.parquet": (b"", {}, {0: UNREADABLE}),
    "its mark alone: a.parquet": (b"PAR1", {}, {0: UNREADABLE}),
    "text: a.parquet": (b"no Parquet at all", {}, {0: UNREADABLE}),
    "zeros: a.parquet": (b"PAR1" + bytes(100) + b"PAR1", {}, {0: UNREADABLE}),
    "cut off: a.parquet": (parquet([f"text {row}" for row in range(5000)])[:-500], {}, {0: ""}),
    "packed in name alone: a.txt.gz": (b"plain text", {}, {0: UNREADABLE}),
    "a file that has gone: a.txt": (None, {}, {0: UNREADABLE}),
    "not UTF-8: a.jsonl": (b'{"text": "one"}\n{"text": "' + BROKEN + b'"}\r\n{"text": "three"}\n', THREE, LINE_2),
    "not UTF-8: a.txt by line": (b"one\n" + BROKEN + b"\nthree", THREE, LINE_2),
    "not UTF-8: a.txt by paragraph": (b"one\n\nbut\n" + BROKEN + b"\n\nthree\n", THREE, {2: f"Line 4 {NOT_UTF8}"}),
    "not UTF-8: a.txt": (b"one\r\n\r\n" + b"x" * 100_000 + b"\r\n" + BROKEN, {}, {1: f"Line 4 {NOT_UTF8}3:"}),
    "not UTF-8: a.csv": (b'id,text\n1,one\n2,"x\n' + BROKEN + b'"\n3,"three"\n', THREE, {2: f"Line 4 {NOT_UTF8}"}),
    "columns not UTF-8: a.csv": (b"id," + BROKEN + b"\n1\n", {}, {0: f"{UNREADABLE}The line that names the columns"}),
    "not UTF-8: a.conllu": (
        b"".join(b"1\t" + word + ROOT.encode() + b"\n\n" for word in (b"one", BROKEN, b"three")),
        THREE,
        {2: f"Line 3 {NOT_UTF8}"},
    ),
    "not UTF-8: a.parquet": (not_utf8_in_parquet(), THREE, {2: "The text is not UTF-8: "}),
    # Which JSON can say and UTF-8 cannot.
    **{
        f"half a character, {half}: a.jsonl": (
            f'{{"text": "1 \\ud83d\\ude00"}}\n{{"text": "two {half}"}}'.encode(),
            {1: "1 😀"},
            {2: "The text has half of a surrogate pair at character 4."},
        )
        for half in ("\\ud83d", "\\udE00 and more", "\\ude00\\ud83d")
    },
    "a record that is not CSV: a.csv": (b'text\none\n"two"x\n"three"\n', THREE, {2: "The record is not CSV: "}),
    "quotes without end: a.csv": (b'text\none\n"two\nthree\n', {1: "one"}, {0: "The file cannot be read after row 1"}),
    "too few and too many columns: a.csv": (
        b"text,id\none\nHello, world,2\nthree,3\n",
        {3: "three"},
        {1: "The record has 1 columns, and the first line names 2.", 2: "The record has 3 columns, and the first line"},
    ),
    "two columns of this name: a.csv": (
        b"text,id,text\none,1,two\n",
        {},
        {0: f"{UNREADABLE}2 columns are called 'text'"},
    ),
    "two columns of this name: a.parquet": (twice_in_parquet(), {}, {0: f"{UNREADABLE}2 columns are called 'text'"}),
    "this name twice: a.jsonl": (
        b'{"text": "one", "id": {"a": 1}}\n{"text": "two", "text": "2"}\n{"text": "three"}',
        THREE,
        {2: f"{NO_JSON}it names 'text' twice"},
    ),
    "UTF-16: a.txt": ("one".encode("utf-16"), {}, {1: "Line 1 is not UTF-8"}),
    "UTF-16 without its mark: a.txt by line": (
        "one\nüç".encode("utf-16-le"),
        {},
        {1: "The text has a NUL at character 1", 2: "Line 2 is not UTF-8"},
    ),
    "a NUL: a.jsonl": (
        b'{"text": "tw\\u0000o"}\n{"text": "two"}',
        {2: "two"},
        {1: "The text has a NUL at character 2"},
    ),
    "neither text nor nothing: a.jsonl": (
        b'{"text": null}\n{"text": 2.5}\n{"text": true}\n{"text": ["a"]}\n{"text": "  "}\n{"text": "six"}',
        {6: "six"},
        dict.fromkeys(range(1, 5), "'text' holds no text."),
    ),
    "numbers: a.parquet": (parquet([1, None]), {}, dict.fromkeys((1, 2), "'text' holds no text.")),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_cannot_be_read_is_told_and_hides_nothing_else(tmp_path, case):
    content, texts, problems = UNREAD[case]
    name, _, by = case.partition(": ")[2].partition(" by ")
    if content is not None:
        put(tmp_path, name, content)
    found = read(tmp_path, name, by=by or "document")
    assert {one.place.file for one in found} == {name}
    assert {one.place.row: one.text.strip() for one in found if isinstance(one, Passage)} == texts
    told = {one.place.row: one.why for one in found if isinstance(one, Problem)}
    assert told.keys() == problems.keys()
    assert [why for row, why in told.items() if not why.startswith(problems[row])] == []
    assert len(found) == len(texts) + len(problems)


# --- what has no end


@pytest.fixture
def no_more_than(monkeypatch):
    """Lines of at most 100,000 bytes, texts and sentences of at most 25,000 characters."""
    for name, most in {"LONGEST_LINE": 100_000, "MAX_CHARACTERS": 25_000, "LONGEST_SENTENCE": 25_000}.items():
        monkeypatch.setattr(reading_module, name, most)


ENDLESS = 5_000_000


@pytest.mark.thorough
@pytest.mark.usefixtures("no_more_than")
@pytest.mark.parametrize(
    ("name", "by", "before", "endless", "after"),
    [
        ("a.jsonl.gz", "document", '{"text": "one"}\n', "x", '\n{"text": "three"}\n'),
        ("a.txt.gz", "line", "one\n", "x", "\nthree"),
        ("a.txt.gz", "paragraph", "one\n\n", "x", "\n\nthree"),
        ("a.txt.gz", "paragraph", "one\n\n", "x" * 98 + "\r\n", "\nthree"),
        ("a.csv.gz", "document", "text\none\n", "x", "\nthree\n"),
        ("a.csv.gz", "document", "text\none\n", '"x",', "\nthree\n"),
        ("a.conllu.gz", "document", f"1\tone{ROOT}\n\n", "x", f"\n\n1\tthree{ROOT}\n"),
        ("a.conllu.gz", "document", f"1\tone{ROOT}\n\n", "1\t" + "x" * 97 + "\n", f"\n1\tthree{ROOT}\n"),
        ("a.txt.gz", "document", "", "x", ""),
    ],
)
def test_what_has_no_end_is_not_held(tmp_path, name, by, before, endless, after):
    """5 MB in a line or a paragraph: hardly any of it is in memory at one time, and what follows is read."""
    put(tmp_path, name, gzip.compress((before + endless * (ENDLESS // len(endless)) + after).encode(), 1))
    tracemalloc.start()
    try:
        found = read(tmp_path, name, by=by)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (problem,) = (one for one in found if isinstance(one, Problem))
    assert [text.text.strip() for text in found if text is not problem] == (["one", "three"] if before else [])
    assert problem.place == Location(name, 2 if before else 1)
    length = r"[\d,]{9,}" if before else "more than 25,000"
    assert re.search(rf"has {length} (bytes|characters); at most [\d,]+ are read", problem.why), problem.why
    assert most < ENDLESS / 8


@pytest.mark.usefixtures("no_more_than")
def test_what_is_too_long(tmp_path):
    """A line is measured in bytes: its characters may take several each, and so more memory than their number says."""
    put(tmp_path, "a.txt", "one\n" + "ü" * 60_000 + "\nthree")
    _, problem, _ = read(tmp_path, "a.txt", by="line")
    assert problem.why == "Line 2 has 120,001 bytes; at most 100,000 are read."
    put(tmp_path, "a.jsonl", json_lines(["y" * 25_002, "short"]))
    problem, text = read(tmp_path, "a.jsonl")
    assert ("25,002 characters" in problem.why, text.text) == (True, "short")


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "\r\r\n\n"])
@pytest.mark.parametrize("length", [8190, 8191, 8192, 8193, 16384])
def test_lines_end_as_python_says_wherever_a_block_ends(tmp_path, ends, length):
    content = "\ufeff" + "é" * 3 + "x" * length + ends + ends + "two" + ends + "\u2028three\x0b\x85" + ends
    path = put(tmp_path, "a.txt", content)
    with open(path, encoding="utf-8-sig", newline="") as file:
        expected = [(row, line) for row, line in enumerate(file, start=1) if line.strip()]
    assert texts_of(read(tmp_path, "a.txt", by="line")) == expected
    (document,) = read(tmp_path, "a.txt")
    assert document.text == path.read_bytes().decode("utf-8-sig")


ENDS = "one\r\ntwo\rthree\nfour\x0b\x0c\x1c\x85\u2028five"


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_ends_of_lines_within_a_text_stay_as_they_are(tmp_path, name):
    if name == "a.parquet":
        pq.write_table(pa.table({"text": [ENDS]}), tmp_path / name)
    elif name == "a.txt":
        put(tmp_path, name, ENDS)
    elif name == "a.jsonl":
        put(tmp_path, name, json_lines([ENDS]).replace("\n", "\r\n"))
    else:
        with open(tmp_path / name, "w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, "excel-tab" if name == "a.tsv" else "excel").writerows([["id", "text"], ["1", ENDS]])
    assert texts_of(read(tmp_path, name)) == [(1, ENDS)]


# --- what problems say


def test_what_a_problem_quotes_is_cut_and_can_be_seen(tmp_path):
    put(tmp_path, "a.jsonl", json.dumps({"k" * 3_000_000: 1, "\x1b[2J\u202e\ud800": 1}) + "\n{'" + "\x07" * 999)
    key, line = read(tmp_path, "a.jsonl", "c" * 100_000)
    assert key.why.startswith(f"There is no column '{'c' * 60}…', only '{'k' * 60}…', '\\x1b[2J\\u202e\\ud800'")
    for problem in (key, line, Problem(Location("a", 1), "\ud800\n" * 10_000)):
        assert len(problem.why) <= 300
        assert problem.why.isprintable()
        problem.why.encode()
    assert Problem(Location("a", 1), "x" * 300).why == "x" * 300
    assert Problem(Location("a", 1), "x" * 301).why == "x" * 299 + "…"


@pytest.mark.parametrize(("ending", "packing"), [*product(sorted(READERS.keys() - {".parquet"}), ("", ".gz"))])
def test_empty_files_hold_no_texts(tmp_path, ending, packing):
    put(tmp_path, f"a{ending}{packing}", PACKERS[packing](b""))
    assert read(tmp_path, f"a{ending}{packing}") == []


# --- which files


@pytest.fixture
def tree(tmp_path):
    for name in ("b.txt", "a.jsonl.gz", "image.png", "in/c.TXT", "in/deep/d.csv", "in/e.txt.zip", "README"):
        put(tmp_path, name, "x" * len(name))
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        *((pattern, ["a.jsonl.gz", "b.txt", "in/c.TXT", "in/deep/d.csv"]) for pattern in ("", "/", "/**")),
        ("/in", ["c.TXT", "deep/d.csv"]),
        ("/*.txt", ["b.txt"]),
        ("/?.txt", ["b.txt"]),
        ("/*", ["a.jsonl.gz", "b.txt"]),
        ("/**/*.csv", ["in/deep/d.csv"]),
        ("/in/**/*.csv", ["deep/d.csv"]),
        ("/in/*/*.csv", ["deep/d.csv"]),
        ("/i*/c.TXT", ["in/c.TXT"]),
        ("/b.txt", ["b.txt"]),
        ("/in/c.TXT", ["c.TXT"]),
    ],
)
def test_files_are_found(tree, pattern, expected):
    found = find_files(f"{tree}{pattern}")
    assert [*found.names] == expected
    assert [(tree.joinpath(found.folder, name)).stat().st_size for name in found.names] == [*found.bytes]


def test_files_are_found_below_where_one_stands_and_by_an_address_of_the_file_system(tree, monkeypatch):
    monkeypatch.chdir(tree)
    for data, expected in (("in", ("c.TXT", "deep/d.csv")), ("*.txt", ("b.txt",)), ("b.txt", ("b.txt",)), (".", None)):
        found = find_files(data)
        assert found.names == (expected or ("a.jsonl.gz", "b.txt", "in/c.TXT", "in/deep/d.csv"))
        assert len([*read_texts(found.folder, found.names[0], RunSettings())]) == 1
        assert data == "." or find_files(f"file://{tree}/{data}").names == expected


def test_each_file_is_read_once_whatever_links_there_are(tree, tmp_path_factory):
    """Links to folders above and beside, to themselves, to files; names are those without links, if there are any."""
    other = tmp_path_factory.mktemp("other")
    put(other, "far/f.txt", "far")
    put(other, "far/down/g.txt", "far")
    before = find_files(str(tree)).names
    for link, to in {
        "self": tree,
        "in/self": tree,
        "in/deep/up": tree / "in",
        "a file.txt": tree / "b.txt",
        "in/a same.txt": tree / "a file.txt",
        "z.txt": other / "far" / "f.txt",
        "y.txt": other / "far" / "f.txt",
        "in/away": other,
        "away": other / "far",
    }.items():
        (tree / link).symlink_to(to)
    (tree / "circle").symlink_to(tree / "circle")
    (other / "far" / "back").symlink_to(tree)
    os.mkfifo(tree / "pipe.txt")
    assert set(find_files(str(tree)).names) == {*before, "away/f.txt", "away/down/g.txt"}
    assert find_files(f"{tree}/*").names == ("a.jsonl.gz", "b.txt", "y.txt")
    assert find_files(f"{tree}/away/**/*.txt").names == ("back/b.txt", "down/g.txt", "f.txt")
    (other / "far" / "back").unlink()
    assert find_files(f"{tree}/away/**/*.txt").names == ("down/g.txt", "f.txt")
    assert find_files(f"{tree}/*way/**").names == ("away/down/g.txt", "away/f.txt")
    assert find_files(f"{tree}/in/away/**/f.txt").names == ("far/f.txt",)
    assert find_files(f"{tree}/self/self/b.txt").names == ("b.txt",)


def test_many_links_to_each_other_do_not_multiply(tmp_path, monkeypatch):
    """Each way through 12 folders that lead to each other would be one of 10^9. How many entries were seen is told."""
    monkeypatch.setattr("core.corpus.walking.TOLD", 12)
    for one in range(12):
        put(tmp_path, f"{one}/a.txt", "x")
        for other in range(12):
            (tmp_path / str(one) / f"to {other}").symlink_to(tmp_path / str(other))
    told = []
    assert find_files(str(tmp_path), told.append).names == tuple(sorted(f"{one}/a.txt" for one in range(12)))
    assert told == [*range(12, 12 * 14 + 1, 12)]
    assert find_files(f"{tmp_path}/*/to 1/to 2/*.txt").names == ("0/to 1/to 2/a.txt",)


@pytest.mark.parametrize("folder", [b"", b"caf\xe9/"])
def test_a_name_that_is_no_utf8_is_refused(tmp_path, folder):
    os.makedirs(os.fsencode(tmp_path) + b"/" + folder, exist_ok=True)
    path = os.fsencode(tmp_path) + b"/" + folder + b"caf\xe9.txt"
    with open(path, "w") as file:
        file.write("x")
    put(tmp_path, "good.jsonl", json_lines(["one"]))
    for data in (str(tmp_path), os.fsdecode(path)):
        with refused("data", r"caf\\udce9.*not UTF-8"):
            find_files(data)
    assert find_files(f"{tmp_path}/*.jsonl").names == ("good.jsonl",)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("", "Nothing is named here"),
        ("a\0b", "not UTF-8, or has a NUL"),
        ("nosuch://bucket/texts", "cannot be read"),
        (f"{'*a' * 600}b", "The pattern has 1,201 characters; the maximum is 1,000"),
        ("/nowhere", "There is nothing at"),
        ("/nowhere/*.txt", "There is nothing at"),
        ("/image.png", "'image.png' is in a format that cannot be read"),
        ("/*.png", "only 1 of others, such as 'image.png'"),
        ("/*.docx", "names no file of a format that can be read. Formats"),
    ],
)
def test_where_there_are_no_files(tree, data, match, monkeypatch):
    monkeypatch.chdir(tree)
    with refused("data", match):
        find_files(f"{tree}{data}" if data.startswith("/") else data)
