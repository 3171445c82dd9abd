import io
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core.attention import matrix_files
from core.attention.matrix_files import MAX_CELLS, check_scores, read_mask, read_matrix, read_npz, to_csv
from core.errors import InputError
from tests.refusals import refused

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=8)
MATRICES = hnp.arrays(np.float64, SHAPES, elements=st.floats(allow_nan=False, allow_infinity=False))
NUMBERS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), **options)
    return stream.getvalue()


def npy_header(text, version=(1, 0)):
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text.encode("latin-1")


@contextmanager
def at_most(peak):
    """Within it, Python allocates no more than this many bytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < peak
    finally:
        tracemalloc.stop()


def npz(*, compress=False, **arrays):
    stream = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(stream, **arrays)
    return stream.getvalue()


def zipped(members, **options):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def refusal(data, *, field="query", read=read_matrix):
    with refused(field) as caught:
        read(data, field=field)
    return str(caught.value)


def npz_refusal(data, *, field="file"):
    return refusal(data, field=field, read=lambda data, **_: read_npz(data))


def outcome(read, data, **options):
    """What reading gives: the result, or the InputError. Any other exception fails the test."""
    try:
        return read(data, **options)
    except InputError as error:
        return error


REFUSED_TEXTS = {
    **dict.fromkeys(("", " ", "\n\n \t\n", "\ufeff", "\ufeff\r\n", b"", b"\xef\xbb\xbf\r\n"), "no numbers"),
    "1 2 3\n\n4 5": "line 3 differs from line 1 in its number of cells: 2, not 3.",
    "1 2 3\n\n4 5 6 7": "line 3 differs from line 1 in its number of cells: 4, not 3.",
    "1,2\n3,abc": "line 2, column 2 is 'abc'",
    "1,2\n\n3,0x10": "line 3, column 2 is '0x10'",
    "1_000": "line 1, column 1 is '1_000'",
    "1 ٣": "line 1, column 2 is '٣'",
    **{cell: f"'{cell}'" for cell in ("1e", ".", "--1", "<b>1</b>")},
    "1;2,5": "line 1, column 2 is '2,5', which is not a number",
    "1\t2,5\n3\t4": "column 1 is '1\\t2'",
    "1,5;2,5": "separated by semicolons here; decimals take a point",
    "1,=CMD()": "'=CMD()'",
    "1 \ud800": r"'\ud800'",
    "1 \x00": r"'\x00'",
    "x" * 1000: f"'{'x' * 19}…'",  # shortened
    "1,x\n2": "line 1, column 2 is 'x'",  # the first thing that is wrong
    "1,2\n3\n4,x": "line 2 differs",
    **dict.fromkeys(("1,,3", "1,2,\n3,4,", ",1", "1\t\t3"), "is empty"),
    "1 1e999": "line 1, column 2 is '1e999', too large",
    **{"1 2\n3 " + cell: f"line 2, column 2 is {cell!r}" for cell in ("nan", "NaN", "-nan", "inf", "+Infinity")},
    "é".encode("latin-1"): "byte 1 is not UTF-8",
    b"1 2\n3 \xff": "byte 7 is not UTF-8",
    "1 2".encode("utf-16"): "byte 1 is not UTF-8",
}


class TestText:
    @pytest.mark.parametrize(
        "text",
        [
            "1, 2, 3\n4, 5, 6\n",
            "1 2   3\n  4 5 6  ",
            "1 2 3\t\n\t4 5 6\n\t\n",
            "1,\t2,\t3\n4,\t5,\t6",
            "\n\n1 2 3\n   \n4 5 6\n\n",
            "\ufeff1,2,3\r\n4,5,6",
            "+1. 2e0 .3E1\n4.0 0.05e+2 60e-1",
            "1\u00a02\u00a03\n4\u00a05\u00a06",
        ],
    )
    @pytest.mark.parametrize("form", ["text", "file"])
    def test_ways_to_write_the_same(self, text, form):
        data = text if form == "text" else text.encode("utf-8")
        array = read_matrix(data, field="query")
        np.testing.assert_array_equal(array, NUMBERS, strict=True)
        np.testing.assert_array_equal(read_matrix("-1 −2e−3", field="query"), [[-1, -2e-3]])

    @given(MATRICES)
    def test_to_csv_comes_back_exactly(self, array):
        for data in (to_csv(array), to_csv(array).encode()):
            back = read_matrix(data, field="value")
            assert back.tobytes() == array.tobytes()  # bit by bit: -0.0 stays -0.0
            assert back.shape == array.shape

    @given(MATRICES, st.sampled_from(";,\t "), st.sampled_from(["\n", "\r\n", "\r"]))
    def test_every_separator_and_line_end(self, array, separator, line_end):
        text = line_end.join(separator.join(map(repr, row)) for row in array.tolist())
        assert read_matrix(text, field="value").tobytes() == array.tobytes()

    @pytest.mark.parametrize("text", REFUSED_TEXTS, ids=lambda text: repr(text)[:30])
    def test_what_is_refused_and_in_which_words(self, text):
        message = refusal(text)
        assert message.startswith("Query: ")
        assert REFUSED_TEXTS[text] in message
        assert len(message) < 300

    @pytest.mark.thorough
    def test_how_much_is_read(self):
        for separator in ", ":
            row = separator.join(["1"] * 1025)
            message = refusal("\n".join([row] * 512))
            assert "512 × 1,025 (rows × columns) are 524,800 cells; at most 524,288" in message
        assert read_matrix("1\n" * MAX_CELLS, field="query").shape == (MAX_CELLS, 1)
        assert "524,289 × 1 " in refusal("1\n" * (MAX_CELLS + 1))
        for data in ("1" * (matrix_files.MAX_TEXT_BYTES + 1), b"1" * (matrix_files.MAX_TEXT_BYTES + 1)):
            assert "16,777,217" in refusal(data)

    @pytest.mark.thorough
    def test_a_hostile_row_is_counted_and_not_split(self):
        text = "1\n" + "22," * 5_000_000
        with at_most(4 * len(text)):
            assert "cells: 5,000,001, not 1." in refusal(text)

    @pytest.mark.thorough
    @pytest.mark.parametrize("line", ["\n", " \t\n", "1\n"])
    def test_lines_are_counted_and_not_split(self, line):
        """A list of them would take four times the memory allowed here."""
        text = line * (MAX_CELLS + 1)
        with at_most(2**20):
            refusal(text)

    def test_lines_are_counted_from_the_first_blank_one_on(self):
        text = "\r\n" * 1000 + "1\t2\n \n\n3\t4\n"
        np.testing.assert_array_equal(read_matrix(text + "\t\n5 \t 6", field="query"), [[1, 2], [3, 4], [5, 6]])
        assert "line 1005 differs from line 1001 in its number of cells: 3, not 2." in refusal(text + "\t5\t6")
        assert "line 1005, column 1 is empty" in refusal(text + "\t5")

    @pytest.mark.thorough
    @given(st.text() | st.text(alphabet="0123456789.,;\t\n\r -+einfa\ufeff") | st.binary())
    @settings(max_examples=200)
    def test_anything_is_a_finite_matrix_or_an_input_error(self, data):
        for read in (read_matrix, read_mask):
            result = outcome(read, data, field="key")
            if isinstance(result, InputError):
                assert result.field == "key"
                continue
            assert result.ndim == 2
            assert 1 <= result.size <= MAX_CELLS
            assert np.isfinite(result).all()


class TestNpy:
    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("version", [(1, 0), (2, 0)])
    @pytest.mark.parametrize(
        "dtype", ["i1", "u1", "<i2", ">i4", "<i8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", np.longdouble]
    )
    def test_every_number_type(self, dtype, version, order):
        array = np.asarray(NUMBERS, dtype=dtype, order=order)
        back = read_matrix(npy(array, version=version), field="key")
        np.testing.assert_array_equal(back, NUMBERS, strict=True)
        assert back.flags.writeable
        assert back.flags.c_contiguous

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            *(
                (npy(np.zeros((2, 3), dtype=dtype)), "only integers or floats can be read")
                for dtype in (bool, complex, "U3", "S3", "M8[s]", "m8[s]", [("a", float)], "V4")
            ),
            (npy(np.ones(3)), "1 dimension, not 2 (rows, columns). Save it as one row"),
            (npy(np.float64(1)), "0 dimensions"),
            (npy(np.ones((1, 2, 3))), "3 dimensions"),
            *((npy(np.ones(shape)), "is empty") for shape in ((0, 3), (3, 0), (0, 0))),
            (npy(np.ones((513, 1024), "f2")), "513 × 1,024 (rows × columns) are 525,312 cells"),
            (npy(NUMBERS)[:-1], "announces 48 bytes of numbers but holds 47"),
            (npy(NUMBERS) + b"\0", "announces 48 bytes of numbers but holds 49"),
            (npz(query=NUMBERS), "ZIP archive"),
            *((pickle.dumps([1], protocol=protocol), "Pickled files are never opened") for protocol in range(2, 6)),
        ],
    )
    def test_what_is_refused_and_in_which_words(self, data, words):
        assert words in refusal(data)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
    def test_not_finite(self, bad, dtype):
        array = NUMBERS.astype(dtype)
        array[1, 2] = bad
        assert f"row 2, column 3 (counted from 1) is {bad}" in refusal(npy(array))

    @pytest.mark.parametrize(
        "shape", ["(1000000, 1000000)", "(10**9, 8)", f"({2**80}, {2**80})", "(-1, 4)", "(-2, -2)"]
    )
    def test_claimed_shapes_cost_nothing(self, shape):
        data = npy_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n") + b"\0" * 64
        with at_most(2**20):
            refusal(data)

    @pytest.mark.parametrize(
        "header",
        [
            "",
            "{",
            "[1]",
            "{'descr': '<f8'}",
            "__import__('os').abort()",
            "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1, 1)}",
            "{'descr': '<f8', 'fortran_order': 0, 'shape': (1, 1)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': 'no'}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1.0, 1)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 1)}",
            "(" * 9_000,
            "-" * 9_000 + "1",
            "[" * 90 + "]" * 90,
            "9" * 9_000,
            " " * 20_000,
            "\0",
        ],
    )
    @pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
    def test_broken_headers(self, header, version):
        assert "header of the NPY file cannot be read" in refusal(npy_header(header + "\n", version) + b"\0" * 8)

    def test_pickled_objects_are_refused_and_never_run(self, tmp_path):
        trap = tmp_path / "sprung"
        header = npy_header("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}\n")
        data = header + f"cos\nmkdir\n(V{trap}\ntR.".encode()  # unpickling it makes a folder
        with_others = zipped([("query.npy", npy(NUMBERS)), ("key.npy", data), ("value.npy", npy(NUMBERS))])
        for message in (
            refusal(data),
            refusal(data, field="mask", read=read_mask),
            npz_refusal(with_others, field="key"),
        ):
            assert "Pickled files are never opened" in message
        assert not trap.exists()
        np.load(io.BytesIO(data), allow_pickle=True)  # the trap is real
        assert trap.exists()


class TestMask:
    @pytest.mark.parametrize(
        "data",
        [
            *("1 0 0\n1 1 0", b"1,0,0\r\n1,1,0", "1.0;0.0;0\n1;1e0;-0"),
            *(npy(np.tri(2, 3, dtype=dtype)) for dtype in (bool, "u1", "i8", "f2", "f8")),
        ],
    )
    def test_ways_to_write_the_same(self, data):
        np.testing.assert_array_equal(read_mask(data), np.tri(2, 3, dtype=bool), strict=True)

    @given(hnp.arrays(bool, SHAPES))
    def test_to_csv_comes_back(self, mask):
        assert set(to_csv(mask)) <= set("01,\n")
        np.testing.assert_array_equal(read_mask(to_csv(mask)), mask, strict=True)

    @pytest.mark.parametrize(("text", "found"), [("1 2", "is 2.0"), ("1 0.5", "is 0.5"), ("1 -1", "is -1.0")])
    def test_other_numbers(self, text, found):
        for data in (text, npy(np.array([text.split()], dtype=float))):
            message = refusal(data, field="mask", read=read_mask)
            assert f"row 1, column 2 (counted from 1) {found}" in message


OTHERS = {"query": NUMBERS, "key": NUMBERS, "value": NUMBERS}


class TestNpz:
    @pytest.mark.parametrize("compress", [False, True])
    def test_all_five(self, compress):
        rng = np.random.default_rng(0)
        given_arrays = {
            "query": rng.normal(size=(2, 4)),
            "key": rng.normal(size=(3, 4)),
            "value": np.asarray(rng.normal(size=(3, 5)), order="F"),
            "mask": np.array([[True, False, True], [True, True, True]]),
            "bias": rng.normal(size=(2, 3)),
        }
        read = read_npz(npz(compress=compress, **given_arrays))
        assert sorted(read) == sorted(given_arrays)
        for name, array in given_arrays.items():
            np.testing.assert_array_equal(read[name], array, strict=True)
        others = {"v": NUMBERS + 2, "KEY": NUMBERS + 1, "Q": NUMBERS, "other": np.ones(3)}
        of_numbers = read_npz(npz(**others, mask=np.array([[1, 0]])))
        assert [of_numbers[name][0, 0] for name in ("query", "key", "value")] == [1, 2, 3]
        np.testing.assert_array_equal(of_numbers["mask"], [[True, False]], strict=True)

    @pytest.mark.parametrize(
        ("data", "field", "words"),
        [
            (npz(query=NUMBERS, weights=NUMBERS), "file", "no array named key or value"),
            (npz(query=NUMBERS, weights=NUMBERS), "file", "'query.npy', 'weights.npy'"),
            (zipped([]), "file", "holds nothing"),
            (npz(**OTHERS, Q=NUMBERS), "file", "two arrays could be the query: 'query.npy' and 'Q.npy'"),
            (zipped([("query.npy", b"1 2 3"), ("key.npy", b""), ("value.npy", b"")]), "query", "is not an NPY array"),
            *(
                (data, "file", "not an NPZ file")
                for data in (b"", b"PK\x03\x04", b"1,2,3", npy(NUMBERS), b"\x80\x04K\x01.")
            ),
            *(
                (zipped([(f"{name}.npy", b"") for name in "qkv"], compression=way), "query", "compressed in a way")
                for way in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
            ),
            (b"PK" + b"\0" * (matrix_files.MAX_FILE_BYTES - 1), "file", "33,554,433 bytes"),
            # The field is the array's name.
            (npz(**OTHERS | {"query": np.ones(3)}), "query", "1 dimension"),
            (npz(**OTHERS | {"key": np.array([[np.nan]])}), "key", "is nan"),
            (npz(**OTHERS | {"value": np.array([[True]])}), "value", "only integers or floats"),
            (npz(**OTHERS, mask=np.array([[2]])), "mask", "is 2"),
            (npz(**OTHERS, bias=np.array([[-np.inf]])), "bias", "is -inf"),
        ],
        ids=lambda part: part if isinstance(part, str) else "",
    )
    def test_what_is_refused_and_in_which_words(self, data, field, words):
        assert words in npz_refusal(data, field=field)

    def test_many_other_names_are_not_all_listed(self):
        message = npz_refusal(zipped([(f"member{index}", b"") for index in range(1000)]))
        assert "and 990 more" in message
        assert len(message) < 500

    @pytest.mark.thorough
    def test_zip_bomb(self):
        bomb = npy(np.zeros((8, 2**20)))  # 64 MiB that deflate packs a thousandfold
        archive = zipped([(f"{name}.npy", bomb) for name in "qkv"], compression=zipfile.ZIP_DEFLATED)
        assert len(archive) < 2**18
        with at_most(2**20):
            assert "at most 33,554,432" in npz_refusal(archive)

    @pytest.mark.thorough
    def test_zip_bomb_whose_directory_lies(self):
        content = npy(NUMBERS)
        bomb = content + b"\0" * 2**26
        members = [("query.npy", bomb), ("key.npy", content), ("value.npy", content)]
        archive = zipped(members, compression=zipfile.ZIP_DEFLATED)
        # The size stands in the directory and before the member itself.
        archive = archive.replace(struct.pack("<I", len(bomb)), struct.pack("<I", len(content)))
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            assert opened.getinfo("query.npy").file_size == len(content)
        with at_most(2**20):
            assert "damaged" in npz_refusal(archive, field="query")


WHOLE = {
    "NPY": (npy(NUMBERS), lambda data: {"key": read_matrix(data, field="key")}),
    **{f"NPZ, packed: {packed}": (npz(compress=packed, **OTHERS), read_npz) for packed in (False, True)},
}


@pytest.mark.parametrize("kind", WHOLE)
class TestDamagedFiles:
    def test_truncated_anywhere(self, kind):
        whole, read = WHOLE[kind]
        assert all(isinstance(outcome(read, whole[:length]), InputError) for length in range(len(whole)))

    @pytest.mark.filterwarnings("ignore:Reading .* required additional header parsing")
    @given(data=st.data())
    @settings(max_examples=150)
    def test_flipped_bytes(self, kind, data):
        whole, read = WHOLE[kind]
        content = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(6 * (kind == "NPY"), len(content) - 1))] = data.draw(st.integers(0, 255))
        result = outcome(read, bytes(content))
        if isinstance(result, InputError):
            assert result.field in {"file", "query", "key", "value"}
            return
        assert result.keys() >= ({"key"} if kind == "NPY" else {"query", "key", "value"})
        assert all(array.ndim == 2 and np.isfinite(array).all() for array in result.values())


@pytest.mark.parametrize(
    ("queries", "keys", "d_v", "field", "said"),
    [
        (MAX_CELLS, MAX_CELLS, 1, "key", "524,288 queries and 524,288 keys make 274,877,906,944 scores"),
        (4096, 4097, 1, "key", "4,096 queries and 4,097 keys make 16,781,312 scores"),
        (MAX_CELLS, 1, MAX_CELLS, "value", "queries and values of 524,288 numbers make 274,877,906,944 outputs"),
    ],
)
def test_small_matrices_with_too_many_scores(queries, keys, d_v, field, said):
    with refused(field, f"{said}; at most 16,777,216"):
        check_scores(*(np.broadcast_to(1.0, shape) for shape in ((queries, 1), (keys, 1), (keys, d_v))))
    check_scores(np.ones((4096, 1)), np.ones((4096, 1)), np.ones((4096, 64)))  # a text of 4,096 tokens
    assert matrix_files.MAX_SCORES == 4096**2
