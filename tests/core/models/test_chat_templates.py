"""Chat templates in a process of their own: what they write is what transformers writes, and whatever they do ends in words."""

import sys
from pathlib import Path

import pytest

from core import load_model
from core.models import chat_templates
from core.models.chat_templates import written_message
from core.models.inputs import chat_ids
from tests.core.tiny_models import number_words, tiny
from tests.refusals import refused
from tests.source_files import imports, text

MESSAGE = "What is <b>2 + 2</b>?\n  \"{{ 7*7 }}\" {% raw %} '東京' 😀 <|im_end|>\t"
# All that transformers' documentation says of templates, and what those of well-known models do.
TEMPLATES = {
    "plain": "{% for message in messages %}\n  {{ message.role }}: {{ message['content'] | trim }}\n{% endfor %}",
    "prompt": "{{ bos_token }}{{ messages[0]['content'] }}{% if add_generation_prompt %}<assistant>{% endif %}{{ eos_token }}",
    "blanks": "  {%- for m in messages -%}\n  {{- m.content -}}\n  {%- endfor %}\n\n   {# none #}\n  x  ",
    "json": "{{ messages | tojson }} {{ {'b': 1, 'a': '<é>'} | tojson(indent=2, sort_keys=true) }}",
    "separators": "{{ [1, {'a': none}] | tojson(separators=(',', ':'), ensure_ascii=true) }}",
    "what is not there": "{{ tools is none }} {{ documents }} {{ unknown is defined }} {{ unknown }} {{ messages[0].tool }}",
    "namespace": "{% set ns = namespace(n=0, self=1) %}{% for i in range(5) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "dict": "{{ dict(a=1, b=[2]) }} {{ dict.fromkeys(['x'], 3) }} {{ dict(messages[0], extra=1) | length }}",
    "loop controls": "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% elif i > 5 %}{% break %}{% endif %}{{ i }}"
    "{% endfor %}",
    "macros": "{% macro say(a, b='.') %}<{{ a }}{{ b }}>{% endmacro %}{{ say(messages[0].content) }}{{ say('x', b='!') }}",
    "generation": "{% set n = 1 %}{% for m in messages %}{% generation %}{% set n = 2 %}{{ m.content }}{{ loop.index }}"
    "{% endgeneration %}{{ n }}{% endfor %}",
    "refusal not taken": "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}"
    "{{ messages[-1].content }}",
    "escapes": "{{ messages[0].content | escape }}{{ '<' ~ '&' }}{{ messages[0].content | upper }}",
    "date": "{{ strftime_now('%Y') }}",
}
# Each beside what is said of it.
BROKEN = {
    "{{ 1/0 }}": "division by zero",
    "{{ range(10**9) }}": "Range too big",
    "{{ 'a'*10**9 }}": "more than 512 MB of memory",
    "{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}": "more than 1,000,000 characters",
    "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}": "maximum recursion depth exceeded",
    "{{ nobody.content }}": "'nobody' is undefined",
    "a\n{% if %}": "in line 2: Expected an expression, got 'end of statement block'",
    "{{ messages[0].content.nowhere() }}": "has no attribute 'nowhere'",
    "{{ ''.__class__.__mro__ }}": "unsafe",
    "{{ messages.append(1) }}": "unsafe",
    "{% set ns = namespace(__class__=1) %}": "may begin with _",
    "{{ '\\ud800' }}": "surrogates not allowed",
    "{{ " + "(" * 20_000 + " }}": "maximum recursion depth exceeded",
    "x" * 1_000_001: "1,000,001 characters",
    5: "it is not a text",
}
TOO_LONG = {  # their errors have up to 30 MB
    "{{ raise_exception('Only <b>even</b> messages' + '!' * 900) }}": "refuses this text: Only <b>even</b> messages!!!",
    "{{ raise_exception(messages[0].content * 10**7) }}": "refuses this text: 5 55 5",
    "{{ raise_exception((messages[0].content * 10**5) | list) }}": "refuses this text: ['5', ' ', '5'",
    "{{ raise_exception('é' * (messages[0].content | length * 5 * 10**6)) }}": "refuses this text: ééé",
    "{{ messages[0][messages[0].content * 5 * 10**6].name }}": "fails: 'dict object' has no attribute '5 55 5",
    "a\n{% " + "x" * 600_000 + " %}": "fails: in line 2: Encountered unknown tag 'xxxx",
}


def tokenizer(template: object):
    made = number_words()
    made.bos_token, made.eos_token, made.chat_template = "1", "2", template
    return made


def refusal(template: object, message: str = MESSAGE) -> str:
    with refused("chat") as error:
        written_message("a model", tokenizer(template), message)
    assert len(str(error.value)) < 500
    return str(error.value)


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_is_written_is_what_transformers_writes(name):
    chats = tokenizer(TEMPLATES[name])
    conversation = [{"role": "user", "content": MESSAGE}]
    expected = chats.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
    assert written_message("a model", chats, MESSAGE) == expected


def test_of_several_templates_the_default_one_is_taken():
    several = tokenizer({"tool_use": "no", "default": "<{{ messages[0].content }}>"})
    assert written_message("a model", several, "5") == "<5>"
    assert "several and none is called default" in refusal({"tool_use": "no", "rag": "no"})


def test_a_long_message_is_written_whole():
    message = "word " * 180_000
    assert written_message("a model", tokenizer("<{{ messages[0].content }}>"), message) == f"<{message}>"


@pytest.mark.parametrize("template", BROKEN, ids=range(len(BROKEN)))
def test_a_template_that_fails_is_told_in_words(template):
    said = refusal(template)
    assert said.startswith("The chat template of a model fails: ")
    assert BROKEN[template] in said
    assert said.endswith(". Let it continue the text as it is.")


@pytest.mark.parametrize("template", TOO_LONG, ids=range(len(TOO_LONG)))
def test_the_start_of_a_too_long_error_is_told(template):
    said = refusal(template, "5 5")
    assert said.startswith(f"The chat template of a model {TOO_LONG[template]}")
    assert said.endswith("…. Let it continue the text as it is.")


def test_a_template_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(chat_templates, "SECONDS", 1)
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    assert "more than 1 seconds of processor time" in refusal(endless)


@pytest.mark.parametrize(
    ("where", "name", "value", "said"),
    [
        (chat_templates, "PATIENCE", 0.001, "did not end within"),
        (chat_templates, "_PROGRAM", Path("/nowhere/nothing.py"), "breaks the process that runs it"),
        (sys, "executable", "", "this system starts none"),
        (sys, "executable", "/nowhere/python", "this system starts none"),
        (sys, "frozen", True, "this system starts none"),
    ],
)
def test_without_a_process_that_answers_in_time_nothing_is_written(where, name, value, said, monkeypatch):
    monkeypatch.setattr(where, name, value, raising=False)
    assert said in refusal("{{ messages[0].content }}")


def test_the_tokens_are_those_of_what_is_written():
    model = load_model(tiny("GPT-2"), tokenizer=tokenizer("7 {{ messages[0].content }} 8"))
    assert chat_ids(model, "5 6") == (7, 5, 6, 8)
    with refused("text", "half of a character"):
        chat_ids(model, "5 \ud800")


def test_the_process_needs_jinja_and_the_standard_library_alone():
    """So it is there in a twentieth of a second; with all of transformers it would take a second."""
    needed = {name.partition(".")[0] for name in imports(text(chat_templates._PROGRAM))}
    assert needed - sys.stdlib_module_names == {"jinja2"}
