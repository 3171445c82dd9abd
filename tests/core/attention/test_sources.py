import math
import os
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.attention import sources
from core.attention.sources import MAX_RANDOM_ROWS, MAX_WIDTH, numbered, random_matrices, split_words, toy_sentence
from core.errors import InputError
from tests.refusals import refused
from tests.source_files import ROOT

KURTOSIS = {"normal": 3.0, "uniform": 1.8, "sign": 1.0}  # E[x⁴] of each distribution with variance 1


def arrays(matrices):
    return matrices.query, matrices.key, matrices.value


@pytest.mark.parametrize("distribution", sources.DISTRIBUTIONS)
class TestRandomMatrices:
    def test_mean_0_and_variance_1_and_independent(self, distribution):
        kurtosis = KURTOSIS[distribution]
        matrices = random_matrices(MAX_RANDOM_ROWS, MAX_RANDOM_ROWS, MAX_WIDTH, MAX_WIDTH, distribution=distribution)
        query, key, value = arrays(matrices)
        for array in (query, key, value):
            assert abs(array.mean()) < 4 / math.sqrt(array.size)
            # The second moment about the true mean 0: its standard error is √((E[x⁴] - 1) / n), 0 for signs.
            assert abs((array**2).mean() - 1) <= 4 * math.sqrt((kurtosis - 1) / array.size)
            assert abs((array**4).mean() - kurtosis) < 0.1
        for one, other in ((query, key), (key, value), (query, value)):
            assert abs((one * other).mean()) < 4 / math.sqrt(one.size)

    def test_shapes_names_and_seeds(self, distribution):
        matrices = random_matrices(2, 3, 5, 7, distribution=distribution)
        assert [array.shape for array in arrays(matrices)] == [(2, 5), (3, 5), (3, 7)]
        assert matrices.query_tokens == numbered("q", 2) == ("q0", "q1")
        assert matrices.key_tokens == ("k0", "k1", "k2")
        first, again = (random_matrices(seed=3, distribution=distribution) for _ in range(2))
        other = random_matrices(seed=4, distribution=distribution)
        for a, b, c in zip(arrays(first), arrays(again), arrays(other), strict=True):
            np.testing.assert_array_equal(a, b)
            assert (a != c).any()

    @given(more=st.integers(1, 40), seed=st.integers(0, sources.MAX_SEED))
    @settings(max_examples=25)
    def test_more_rows_leave_everything_else_alone(self, distribution, more, seed):
        small = arrays(random_matrices(seed=seed, distribution=distribution))
        for sizes, same in (({"queries": 6 + more}, 3), ({"keys": 6 + more}, 3), ({"d_v": 8 + more}, 2)):
            large = arrays(random_matrices(**sizes, seed=seed, distribution=distribution))
            for array, whole in list(zip(small, large, strict=True))[:same]:
                np.testing.assert_array_equal(whole[: len(array)], array)


class TestRandomMatricesLimits:
    @pytest.mark.parametrize("field", ["queries", "keys", "d_k", "d_v", "seed"])
    @pytest.mark.parametrize("value", [-1, 2**32, 2.0, "3", True, None, math.nan])
    def test_sizes_and_seed_are_whole_numbers(self, field, value):
        with refused(field, f"is {value!r};"):
            random_matrices(**{field: value})

    def test_unknown_distribution(self):
        with refused("distribution", r"'cauchy'.*normal, uniform, sign"):
            random_matrices(distribution="cauchy")


class TestSplitWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("The cat sat.", ["The", "cat", "sat", "."]),
            ("don't  stop,\nl’été 'here'", ["don't", "stop", ",", "l’été", "'", "here", "'"]),
            ("café 東京 42", ["café", "東京", "42"]),
            ("cafe\u0301 नमस्ते", ["cafe\u0301", "नमस्ते"]),
            ("hi👋🏽👩‍💻❤️!", ["hi", "👋🏽", "👩‍💻", "❤️", "!"]),
            ("🇫🇷🇯🇵 1️⃣", ["🇫🇷", "🇯🇵", "1️⃣"]),
            ("<b>$x$</b>", ["<", "b", ">", "$", "x", "$", "<", "/", "b", ">"]),
            ("می‌خواهم", ["می‌خواهم"]),
            ("snake_case", ["snake_case"]),
            ("\ufeffBOM", ["BOM"]),
            ("", []),
            (" \t\n\u3000", []),
        ],
    )
    def test_examples(self, text, words):
        assert list(split_words(text)) == words

    @pytest.mark.thorough
    @given(st.text() | st.text(alphabet="a é'\u0301\u200d👩💻🏽🇫🇷\u200b.\ufe0f_ "))
    def test_nothing_visible_is_lost(self, text):
        def visible(of):
            return [c for c in of if not c.isspace() and unicodedata.category(c) != "Cf"]

        assert visible("".join(split_words(text))) == visible(text)
        assert all(word in text for word in split_words(text))


HUNDRED_WORDS = ("a" * 999 + " ") * (sources.MAX_SENTENCE_CHARACTERS // 1_000)


class TestToySentence:
    def test_shapes_names_and_origin(self):
        matrices = toy_sentence("The cat sat on the mat.", d_model=16, d_head=4, seed=9)
        assert [array.shape for array in arrays(matrices)] == [(7, 4)] * 3
        assert matrices.query_tokens == matrices.key_tokens == ("The", "cat", "sat", "on", "the", "mat", ".")
        assert matrices.origin == "Untrained: every word and projection is a random vector, seed 9."

    def test_equal_words_and_no_others_have_equal_rows(self):
        """Within a sentence, in any other sentence, and in both spellings of an accent."""
        for array in arrays(toy_sentence("rose is a rose is a ros")):
            np.testing.assert_array_equal(array[:3], array[3:6])
            assert len(np.unique(array[[0, 1, 2, 6]], axis=0)) == 4
        alone, within = toy_sentence("cat"), toy_sentence("a big cat sat")
        for one, other in zip(arrays(alone), arrays(within), strict=True):
            np.testing.assert_allclose(one[0], other[2], rtol=0, atol=1e-14)  # BLAS may sum in another order
        matrices = toy_sentence("café cafe\u0301")
        assert matrices.query_tokens == ("café", "cafe\u0301")
        np.testing.assert_array_equal(matrices.query[0], matrices.query[1])

    def test_unit_variance(self):
        n, d_model, d_head = sources.MAX_SENTENCE_WORDS, 1024, 1024
        text = " ".join(f"w{index}" for index in range(n))
        # mean((xW)²) varies through W by 2/d_head · (1/n + 1/d_model) and through x by 2/(n · d_model).
        error = math.sqrt(2 / d_head * (1 / n + 1 / d_model) + 2 / (n * d_model))
        for array in arrays(toy_sentence(text, d_model=d_model, d_head=d_head)):
            assert abs((array**2).mean() - 1) < 4 * error

    def test_the_same_in_every_process(self):
        program = "from core import toy_sentence; print(toy_sentence('Tôkyô 東京 👋').query.tobytes().hex())"
        environment = os.environ | {"PYTHONHASHSEED": "1"}  # unlike here
        command = [sys.executable, "-c", program]
        there = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True)
        rows = np.frombuffer(bytes.fromhex(there.stdout.decode())).reshape(3, 8)
        np.testing.assert_allclose(toy_sentence("Tôkyô 東京 👋").query, rows, rtol=0, atol=1e-14)

    def test_the_longest_sentences(self):
        """To order a word's accents, Python's NFC takes the square of their number, and nothing else runs meanwhile."""
        toy_sentence("a " * sources.MAX_SENTENCE_WORDS, d_model=1, d_head=1)
        assert len(toy_sentence(HUNDRED_WORDS, d_model=1, d_head=1).query) == 100
        assert len(toy_sentence("a" + "\u0301\u0327" * 499).query) == 1

    @pytest.mark.parametrize(
        ("given", "field", "words"),
        [
            *(({"text": text}, "text", "blank") for text in ("", "   ", "\n\t\u3000", "\u200b")),
            ({"text": "a " * (sources.MAX_SENTENCE_WORDS + 1)}, "text", "has 513 words.* at most 512"),
            ({"text": HUNDRED_WORDS + "a"}, "text", "100,001 characters"),
            ({"text": "a\u0301" + "\u0327\u0301" * 49_999}, "text", "has 100,000 characters; .* at most 1,000"),
            *(({size: number}, size, f"{number}") for size in ("d_model", "d_head") for number in (0, MAX_WIDTH + 1)),
            *(({"seed": number}, "seed", f"{number}") for number in (-1, 0.5)),
        ],
        ids=lambda part: part if isinstance(part, str) else "",
    )
    def test_limits(self, given, field, words):
        with refused(field, words):
            toy_sentence(**{"text": "cat"} | given)

    @pytest.mark.thorough
    @given(st.text(alphabet=st.characters(exclude_categories=())))
    @settings(max_examples=200)
    def test_any_text_gives_finite_rows_or_an_input_error(self, text):
        try:
            matrices = toy_sentence(text, d_model=4, d_head=2)
        except InputError:
            assert not split_words(text)
            return
        assert matrices.query.shape == (len(matrices.query_tokens), 2)
        assert all(np.isfinite(array).all() for array in arrays(matrices))
