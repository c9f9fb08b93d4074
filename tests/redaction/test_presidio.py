"""Names by presidio-analyzer: found where they lie, by a model of spaCy's, without a network."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

import processes
from guardspan.redaction import RedactionError, Redactor
from guardspan.redaction.presidio import PresidioError, presidio_finder
from guardspan.redaction.rule import Finder

PATTERNS = [
    {"label": "PERSON", "pattern": "Ada Lovelace"},
    {"label": "PERSON", "pattern": "Zoë"},
    {"label": "PERSON", "pattern": "Zoe\u0301"},
    {"label": "GPE", "pattern": "London"},
    {"label": "FAC", "pattern": [{"IS_DIGIT": True}, {"LOWER": "baker"}, {"LOWER": "street"}]},
    {"label": "ORG", "pattern": "Acme"},
    {"label": "NORP", "pattern": "Danish"},
]
TEXT = "Ada Lovelace (Acme, Danish) moved from London to 221 Baker Street."
FOUND = [("Ada Lovelace", "person"), ("London", "location"), ("221 Baker Street", "location")]
NAME = "Ada Lovelace"


def saved(pipeline: Language, folder: Path) -> str:
    """The pipeline in a folder, as a model of the user's own."""
    pipeline.to_disk(folder)
    return str(folder)


def ruled(language: str, patterns: list[dict[str, Any]]) -> Language:
    """A pipeline whose names are those of the patterns."""
    pipeline = spacy.blank(language)
    pipeline.add_pipe("entity_ruler").add_patterns(patterns)
    return pipeline


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small pipeline that marks the patterns."""
    return saved(ruled("en", PATTERNS), tmp_path_factory.mktemp("model") / "names")


@pytest.fixture(scope="session")
def finder(model: str) -> Finder:
    """A finder of persons and locations."""
    return presidio_finder(model)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a pipeline whose network learnt one sentence, laid out as spaCy's own small ones."""
    pipeline = spacy.blank("en")
    for name in ("tok2vec", "tagger", "senter", "ner"):
        pipeline.add_pipe(name)
    document = pipeline.make_doc("Ada met Bob in London .")
    tags = ["NNP", "VBD", "NNP", "IN", "NNP", "."]
    names = [(0, 3, "PERSON"), (8, 11, "PERSON"), (15, 21, "GPE")]
    starts = [True, *[False] * 5]
    lesson = Example.from_dict(document, {"tags": tags, "sent_starts": starts, "entities": names})
    optimizer = pipeline.initialize(lambda: [lesson])
    for _ in range(40):
        pipeline.update([lesson], sgd=optimizer)
    return saved(pipeline, tmp_path_factory.mktemp("model") / "trained")


def named(finder: Finder, text: str) -> list[tuple[str, str]]:
    """What was found, in the words of the text."""
    return [(text[start:end], rule) for start, end, rule in finder(text)]


def test_names_and_places_are_found(finder: Finder) -> None:
    """Persons, places and addresses, at their characters; nothing that was not asked for."""
    assert named(finder, TEXT) == FOUND
    assert next(iter(finder(TEXT))) == (0, 12, "person")


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "The weather is fine.", '{"a": [1]}', "\0", "?!" * 900])
def test_clean_text_has_no_names(finder: Finder, text: str) -> None:
    """Empty texts, spaces and plain prose give nothing."""
    assert list(finder(text)) == []


@pytest.mark.parametrize(
    "before",
    [
        "\U0001f469\u200d\U0001f680 ",
        "e\u0301 ",
        "नमस्ते ",
        "\ud83d ",
        "\udfff\ud800 ",
        "\u202e ",
        "\0 ",
        "x\r\n\r\n",
        "\u00a0",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("name", [NAME, "Zoë", "Zoe\u0301"], ids=ascii)
def test_places_are_counted_in_characters(finder: Finder, before: str, name: str) -> None:
    """Emoji, combining characters, lone surrogates and controls shift nothing."""
    assert list(finder(f"{before}{name} {before}")) == [(len(before), len(before) + len(name), "person")]


@pytest.mark.parametrize(
    ("entities", "found"),
    [
        (("PERSON",), [("Ada Lovelace", "person")]),
        (("GPE",), FOUND[1:]),
        (("ORG", "NRP"), [("Acme", "organization"), ("Danish", "nrp")]),
    ],
)
def test_only_what_is_asked_for(model: str, entities: tuple[str, ...], found: list[tuple[str, str]]) -> None:
    """Entities go by presidio's names or the model's labels."""
    assert named(presidio_finder(model, entities=entities), TEXT) == found


def test_labels_of_the_users_own(tmp_path: Path) -> None:
    """A label that presidio does not know becomes a rule of its name."""
    pipeline = ruled("en", [{"label": "SHIP_NAME", "pattern": "Beagle"}])
    finder = presidio_finder(saved(pipeline, tmp_path / "ships"), entities=["SHIP_NAME"])
    assert named(finder, "aboard the Beagle") == [("Beagle", "ship-name")]


@pytest.mark.parametrize(
    ("language", "person", "place"),
    [("de", "PER", "LOC"), ("pl", "persName", "placeName"), ("sv", "PRS", "LOC"), ("xx", "PER", "LOC")],
)
def test_the_language_is_the_models(tmp_path: Path, language: str, person: str, place: str) -> None:
    """The language is read from the model, and the labels of its treebank are known."""
    patterns = [{"label": person, "pattern": "Zoë"}, {"label": place, "pattern": "Lund"}]
    finder = presidio_finder(saved(ruled(language, patterns), tmp_path / language))
    assert named(finder, "Zoë, Lund") == [("Zoë", "person"), ("Lund", "location")]


@pytest.mark.parametrize("threshold", [0, 0.5, 0.85])
def test_a_threshold_up_to_the_score_of_all_names(model: str, threshold: float) -> None:
    """Presidio scores every name of a spaCy model at 0.85."""
    assert named(presidio_finder(model, threshold=threshold), TEXT) == FOUND


@pytest.mark.parametrize("threshold", [-0.1, 0.86, 1.5, float("nan")])
def test_a_threshold_that_finds_nothing_is_refused(model: str, threshold: float) -> None:
    """A finder that can find nothing would leak in silence."""
    with pytest.raises(PresidioError, match=r"0\.85"):
        presidio_finder(model, threshold=threshold)


@pytest.mark.parametrize("entities", [(), ("CREDIT_CARD",), ("PERSON", "PASSPORT"), ("a b",)])
def test_entities_that_the_model_cannot_mark_are_refused(model: str, entities: tuple[str, ...]) -> None:
    """The error says what the model can mark."""
    with pytest.raises(PresidioError, match="its labels: FAC, GPE, NORP, ORG, PERSON"):
        presidio_finder(model, entities=entities)


def test_a_model_without_names_is_refused(tmp_path: Path) -> None:
    """A pipeline that marks nothing would leak in silence."""
    with pytest.raises(PresidioError, match="its labels: none"):
        presidio_finder(saved(spacy.blank("en"), tmp_path / "blank"))


@pytest.mark.parametrize("model", ["en_core_web_none", "no/such/folder", "", "blank:en"])
def test_a_missing_model_is_named(model: str) -> None:
    """The error says which model, and how to get one."""
    with pytest.raises(PresidioError, match="python -m spacy download") as raised:
        presidio_finder(model)
    assert repr(model) in str(raised.value)


@pytest.mark.parametrize("model", ["pytest", "."])
def test_what_is_no_model_is_named(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package or a folder that holds no pipeline."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PresidioError, match=f"{model!r} cannot be loaded"):
        presidio_finder(model)


def test_a_model_is_found_by_its_packages_name(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package as `spacy download` installs it."""
    package = tmp_path / "en_guardspan_names"
    shutil.copytree(model, package / "en_guardspan_names-1.0.0")
    meta = (package / "en_guardspan_names-1.0.0" / "meta.json").read_text(encoding="utf-8")
    told = {**json.loads(meta), "name": "guardspan_names", "version": "1.0.0"}
    (package / "meta.json").write_text(json.dumps(told), encoding="utf-8")
    (package / "__init__.py").write_text(
        "from spacy.util import load_model_from_init_py\n"
        "def load(**overrides):\n    return load_model_from_init_py(__file__, **overrides)\n",
        encoding="utf-8",
    )
    info = tmp_path / "en_guardspan_names-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: en-guardspan-names\nVersion: 1.0.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "en_guardspan_names", raising=False)
    assert named(presidio_finder("en_guardspan_names"), TEXT) == FOUND


@pytest.mark.parametrize("missing", ["presidio_analyzer", "spacy"])
def test_a_missing_extra_is_named(tmp_path: Path, missing: str) -> None:
    """The module itself can be imported without the extra; the finder says how to install it."""
    program = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from guardspan.redaction.presidio import presidio_finder
assert "spacy" not in sys.modules and "presidio_analyzer" not in sys.modules
presidio_finder("anything")
"""
    done = processes.run([sys.executable, "-c", program], tmp_path, status=1)
    last = done.stderr.strip().splitlines()[-1]
    assert "PresidioError" in last
    assert missing in last
    assert 'pip install "guardspan[presidio]"' in last


@pytest.mark.parametrize("which", ["there", "missing"])
def test_no_network_and_no_program(model: str, tmp_path: Path, which: str) -> None:
    """No connection, no host looked up, no program run, be the model there or not."""
    program = f"""
import socket, sys

tried = []

def refuse(*arguments, **named):
    tried.append(arguments)
    raise OSError("no network in this test")

def watch(event, arguments):
    if event in {{"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.posix_spawn"}}:
        tried.append(event)
        raise OSError("not in this test")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
sys.addaudithook(watch)
from guardspan.redaction.presidio import PresidioError, presidio_finder

if {which!r} == "there":
    finder = presidio_finder({model!r})
    assert len(list(finder({TEXT + " mail ada@example.org"!r}))) == 3
else:
    try:
        presidio_finder("en_core_web_none")
    except PresidioError:
        pass
    else:
        raise AssertionError("no error")
assert not tried, tried
"""
    done = processes.run_python(program, tmp_path)
    assert (done.stdout, done.stderr) == ("", "")


def test_logging_is_the_applications(model: str, tmp_path: Path) -> None:
    """The root logger is left as it was."""
    program = f"""
import logging

before = (logging.root.level, list(logging.root.handlers), logging.root.manager.disable)
from guardspan.redaction.presidio import presidio_finder
list(presidio_finder({model!r})({TEXT!r}))
assert before == (logging.root.level, list(logging.root.handlers), logging.root.manager.disable)
"""
    processes.run_python(program, tmp_path)


def test_no_word_of_a_text_is_logged(model: str, caplog: pytest.LogCaptureFixture) -> None:
    """Even at the finest level, of which presidio makes much use."""
    caplog.set_level(logging.DEBUG)
    assert named(presidio_finder(model), TEXT) == FOUND
    assert caplog.records
    assert not [word for word in ("Lovelace", "London", "Baker") if word in caplog.text]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("unit", ["a", "(", "lorem ipsum ", "x\n", "\U0001f600", "\ud800"], ids=ascii)
@pytest.mark.parametrize("length", [880, 895, 905, 990, 1000, 1001, 1900, 2805])
def test_a_name_at_the_edge_of_a_piece_is_found_whole(finder: Finder, unit: str, length: int) -> None:
    """Long texts are cut into pieces that overlap; every name keeps its place."""
    filling = (unit * length)[:length]
    text = f"{filling} {NAME} {filling} {NAME} {filling}"
    spans = set(finder(text))
    second = length + 1 + len(NAME) + 1 + length + 1
    assert {(length + 1, length + 1 + len(NAME), "person"), (second, second + len(NAME), "person")} == spans


def test_a_text_longer_than_spacy_takes(finder: Finder) -> None:
    """Over a million characters, spaCy's limit for one text."""
    text = "x" * 1_000_100 + f" {NAME}"
    assert list(finder(text)) == [(1_000_101, 1_000_101 + len(NAME), "person")]


@pytest.mark.parametrize("name", ["model", "trained"])
def test_threads_find_the_same(name: str, request: pytest.FixtureRequest) -> None:
    """Eight threads at once, each with words that no other text has."""
    finder = presidio_finder(request.getfixturevalue(name))
    texts = [f"word{number} Ada met Bob in London . {NAME} number{number}" for number in range(200)]
    expected = [list(finder(text)) for text in texts]
    assert all(expected)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: list(finder(text)), texts)) == expected


def test_a_trained_pipeline_without_its_grammar(trained: str) -> None:
    """Taggers and the like, half of the cost, are dropped; the names are those of the whole pipeline."""
    text = "Ada met Bob in London ."
    whole = spacy.load(trained)(text)
    rules = {"PERSON": "person", "GPE": "location"}
    expected = [(name.start_char, name.end_char, rules[name.label_]) for name in whole.ents]
    assert len(expected) == 3
    assert list(presidio_finder(trained)(text)) == expected


def test_words_are_forgotten(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline's vocabulary keeps no word of a text, so a long process does not grow."""
    loaded: list[Language] = []
    load: Callable[..., Language] = spacy.load
    monkeypatch.setattr(spacy, "load", lambda name: loaded.append(load(name)) or loaded[-1])
    finder = presidio_finder(model)
    [pipeline] = loaded
    before = len(list(pipeline.vocab)), len(pipeline.vocab.strings)
    for number in range(50):
        assert list(finder(f"secret{number} {NAME}"))
    assert (len(list(pipeline.vocab)), len(pipeline.vocab.strings)) == before
    assert "secret7" not in pipeline.vocab.strings


@pytest.fixture
def failing(tmp_path: Path) -> Finder:
    """A finder whose model has a component that fails on a word."""

    @Language.component("guardspan_failing")
    def fail(document: Any) -> Any:
        if "fail" in document.text:
            raise ValueError(f"cannot read {document.text}")
        return document

    pipeline = ruled("en", PATTERNS)
    pipeline.add_pipe("guardspan_failing")
    return presidio_finder(saved(pipeline, tmp_path / "failing"))


def test_a_fault_says_nothing_of_the_text(failing: Finder) -> None:
    """Neither in its message nor in what hangs on it; the next text is analysed as before."""
    with pytest.raises(PresidioError) as raised:
        list(failing(f"{NAME} fail"))
    assert str(raised.value) == "a text could not be analysed (ValueError)"
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert named(failing, TEXT) == FOUND


def test_the_redactor_fails_closed(failing: Finder) -> None:
    """What could not be analysed is not recorded; all else is redacted."""
    redactor = Redactor(finders=[failing])
    assert redactor.redact(f"{NAME} lives here").text == "[redacted:person] lives here"
    with pytest.raises(RedactionError):
        redactor.redact(f"{NAME} fail")


def test_a_call_from_within_is_refused(tmp_path: Path) -> None:
    """Say a log handler that redacts: no deadlock, no second zone of memory; the outer call goes on."""
    finders: list[Finder] = []
    refused: list[str] = []

    @Language.component("guardspan_reentrant")
    def again(document: Any) -> Any:
        if finders and "again" in document.text:
            with pytest.raises(PresidioError) as raised:
                list(finders[0](NAME))
            refused.append(str(raised.value))
        return document

    pipeline = ruled("en", PATTERNS)
    pipeline.add_pipe("guardspan_reentrant")
    finders.append(presidio_finder(saved(pipeline, tmp_path / "reentrant")))
    assert named(finders[0], f"{NAME} again") == [(NAME, "person")]
    assert refused == ["a text was analysed from within the analysis of another"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_not_locked_out(tmp_path: Path) -> None:
    """A child of a process whose other thread was analysing has a lock of its own."""
    program = f"""
import os, sys, threading
from pathlib import Path
import spacy
from spacy.language import Language
from guardspan.redaction.presidio import presidio_finder

inside, go_on = threading.Event(), threading.Event()

@Language.component("guardspan_waiting")
def wait(document):
    if "wait" in document.text:
        inside.set()
        go_on.wait(60)
    return document

pipeline = spacy.blank("en")
pipeline.add_pipe("entity_ruler").add_patterns({PATTERNS!r})
pipeline.add_pipe("guardspan_waiting")
pipeline.to_disk("model")
finder = presidio_finder("model")
found = []
thread = threading.Thread(target=lambda: found.extend(finder({"wait " + TEXT!r})))
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    import signal
    signal.alarm(60)
    os._exit(0 if [len(list(finder({TEXT!r}))) for _ in range(3)] == [3, 3, 3] else 1)
status = os.waitpid(child, 0)[1]
go_on.set()
thread.join(60)
assert status == 0, status
assert len(found) == 3
"""
    processes.run_python(program, tmp_path)


def test_a_redacted_text(finder: Finder) -> None:
    """Through the redactor, beside our own rules."""
    redactor = Redactor(finders=[finder])
    text = f"{NAME} of London sent ghp_{'a1B2c3D4e5' * 4}"
    assert redactor.redact(text).text == "[redacted:person] of [redacted:location] sent [redacted:github]"
