"""Names of persons and places by presidio-analyzer and a spaCy model, which no rule can find.

Needs ``pip install "guardspan[presidio]"`` and a model. Nothing is ever downloaded from here: of presidio's
recognisers only the one that reads the model's own marks is used, and a model that is not there is an error.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from guardspan.redaction.rule import Finder

_ENTITIES = {
    "PER": "PERSON",
    "PERS": "PERSON",
    "PRS": "PERSON",
    "PS": "PERSON",
    "persName": "PERSON",
    "FAC": "LOCATION",
    "FACILITY": "LOCATION",
    "GPE": "LOCATION",
    "GPE_LOC": "LOCATION",
    "GPE_ORG": "LOCATION",
    "LC": "LOCATION",
    "LOC": "LOCATION",
    "geogName": "LOCATION",
    "placeName": "LOCATION",
    "OG": "ORGANIZATION",
    "ORG": "ORGANIZATION",
    "orgName": "ORGANIZATION",
    "NORP": "NRP",
    "DATE": "DATE_TIME",
    "TIME": "DATE_TIME",
}
"""The labels of spaCy's models for many languages, and presidio's entities; others keep their names."""
_ENTITY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_SCORE = 0.85
"""Presidio's score for all that a spaCy model marks: those models tell no probability."""
_GRAMMAR = frozenset(
    "tagger morphologizer parser senter sentencizer attribute_ruler lemmatizer trainable_lemmatizer".split()
)
_RECOGNISERS = frozenset("tok2vec transformer curated_transformer ner beam_ner".split())
_PIECE = 1_000
"""Characters analysed at once: spaCy takes time quadratic in the length of what has no spaces."""
_OVERLAP = 100
"""Characters, at least, that two pieces share, so that a name on the edge is whole in one of them."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_WARMING = "Ada Lovelace moved from London to 12 Elm Avenue, Springfield."


class PresidioError(RuntimeError):
    """No finder can be made, or a text could not be analysed; the message holds nothing of the text."""


def presidio_finder(
    model: str = "en_core_web_sm",
    *,
    entities: Sequence[str] = ("PERSON", "LOCATION"),
    threshold: float = 0.5,
) -> Finder:
    """A finder of names, safe for threads; loads the model now, which takes seconds.

    Args:
        model: a spaCy pipeline: the name of an installed package, or a folder. Its language is its own.
        entities: presidio's names (``PERSON``, ``LOCATION``, ``ORGANIZATION``, ``NRP``, ``DATE_TIME``) or
            labels of the model's own. Each becomes the rule of its name: ``person``, ``date-time``.
        threshold: the least score, from 0 to 0.85. Presidio gives 0.85 to all that a spaCy model marks.

    Returns:
        The finder. Its spans may overlap where a text is longer than 1,000 characters. It raises
        PresidioError where a text cannot be analysed.

    Raises:
        PresidioError: the extra or the model is not installed, the model cannot be loaded or does not mark
            an entity asked for, or the threshold is such that nothing would ever be found.
    """
    if not 0 <= threshold <= _SCORE:
        raise PresidioError(f"the threshold {threshold} is not from 0 to {_SCORE}, the score of every name")
    pipeline = _pipeline(model)
    labels = _labels(pipeline, model, {_ENTITIES.get(entity, entity) for entity in entities})
    _drop_grammar(pipeline)
    finder = _PresidioFinder(_analyzer(pipeline, labels), pipeline, labels, threshold)
    finder(_WARMING)
    return finder


def _pipeline(model: str) -> Any:
    spacy = _spacy()
    if not model or not (spacy.util.is_package(model) or Path(model).is_dir()):
        name = model if model.isidentifier() else "en_core_web_sm"
        raise PresidioError(
            f"the spaCy model {model!r} is not installed and no folder; install it with: "
            f"python -m spacy download {name}, or give the path of a model's folder"
        )
    try:
        return spacy.load(model)
    except Exception as error:
        raise PresidioError(
            f"the spaCy model {model!r} cannot be loaded ({type(error).__name__}: {error})"
        ) from error


def _spacy() -> Any:
    try:
        import presidio_analyzer  # noqa: F401  # both, or neither
        import spacy
    except ImportError as error:
        raise PresidioError(
            f'names need presidio-analyzer ({error}); install it with: pip install "guardspan[presidio]"'
        ) from error
    return spacy


def _labels(pipeline: Any, model: str, wanted: set[str]) -> dict[str, str]:
    """Every label of the pipeline's recognisers and its entity, or an empty text where that is not wanted.

    Raises:
        PresidioError: an entity would never be found, or its name can be no rule's.
    """
    entities = {label: _ENTITIES.get(label, label) for label in _marks(pipeline)}
    refused = wanted - set(entities.values()) or {name for name in wanted if not _ENTITY.fullmatch(name)}
    if refused or not wanted:
        named = ", ".join(sorted(refused)) or "nothing"
        known = ", ".join(sorted(entities)) or "none"
        raise PresidioError(f"the spaCy model {model!r} cannot be asked for {named}; its labels: {known}")
    return {label: entity if entity in wanted else "" for label, entity in entities.items()}


def _marks(pipeline: Any) -> set[str]:
    return {
        label
        for name, labels in pipeline.pipe_labels.items()
        if pipeline.get_pipe_meta(name).factory not in _GRAMMAR
        for label in labels
    }


def _drop_grammar(pipeline: Any) -> None:
    """Remove what names do not need: half of the time, and a lemmatizer's cache of every word seen.

    Rules and components of the user's own may read parts of speech; a pipeline with such is left whole.
    """
    factories = {name: pipeline.get_pipe_meta(name).factory for name in pipeline.pipe_names}
    if not set(factories.values()) <= _GRAMMAR | _RECOGNISERS:
        return
    for name, factory in factories.items():
        if factory in _GRAMMAR:
            pipeline.remove_pipe(name)
    for name, factory in factories.items():
        if factory == "tok2vec" and not _listened_to(pipeline, name):
            pipeline.remove_pipe(name)


def _listened_to(pipeline: Any, name: str) -> bool:
    return not set(pipeline.pipe_names).isdisjoint(pipeline.get_pipe(name).listening_components)


def _analyzer(pipeline: Any, labels: Mapping[str, str]) -> Any:
    """Presidio's engine with one recogniser, that of the pipeline's marks; told of a loaded pipeline.

    Left to itself presidio would download a model, choose a GPU for the whole process, and load recognisers
    that fetch a list of domains.
    """
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import SpacyRecognizer

    language = pipeline.lang
    wanted = {label: entity for label, entity in labels.items() if entity}
    engine: Any = SpacyNlpEngine(
        models=[{"lang_code": language, "model_name": pipeline.meta["name"]}],
        ner_model_configuration=NerModelConfiguration(
            model_to_presidio_entity_mapping=wanted,
            labels_to_ignore=sorted(labels.keys() - wanted.keys()),
            default_score=_SCORE,
            low_score_entity_names=[],
        ),
    )
    engine.nlp = {language: pipeline}
    recogniser = SpacyRecognizer(supported_language=language, supported_entities=sorted(set(wanted.values())))
    registry = RecognizerRegistry(recognizers=[recogniser], supported_languages=[language])
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])


class _PresidioFinder:
    """One analyser and its pipeline, used by one thread at a time.

    Each piece is analysed in a memory zone of spaCy's, since its vocabulary would keep every new word for
    ever. A zone is the pipeline's, not the thread's, and must not be entered twice: hence the lock, and the
    refusal of a call from within, say by an application's log handler that redacts.
    """

    def __init__(self, analyzer: Any, pipeline: Any, labels: Mapping[str, str], threshold: float) -> None:
        self._analyzer = analyzer
        self._pipeline = pipeline
        self._rules = {entity: entity.lower().replace("_", "-") for entity in labels.values() if entity}
        self._threshold = threshold
        self.unlock()
        _everyone.add(self)

    def unlock(self) -> None:
        """Start with a lock of its own: a forked child's, whose parent may have held the other."""
        self._lock = threading.RLock()
        self._busy = False

    def __call__(self, text: str) -> Iterable[tuple[int, int, str]]:
        """The names in a text, as start, end (in characters) and rule, in order, each span once."""
        found: set[tuple[int, int, str]] = set()
        for offset, piece in _pieces(_SURROGATE.sub("\ufffd", text)):
            if not piece.isspace():
                found.update((offset + start, offset + end, rule) for start, end, rule in self._names(piece))
        return sorted(found)

    def _names(self, piece: str) -> list[tuple[int, int, str]]:
        with self._lock:
            if self._busy:
                raise PresidioError("a text was analysed from within the analysis of another")
            self._busy = True
            try:
                return self._analysed(piece)
            finally:
                self._busy = False

    def _analysed(self, piece: str) -> list[tuple[int, int, str]]:
        fault = ""
        with self._pipeline.memory_zone():
            try:
                return self._spans(piece)
            except Exception as error:
                fault = type(error).__name__
        # Without the cause: its frames hold the text, and documents whose memory is no more.
        raise PresidioError(f"a text could not be analysed ({fault})")

    def _spans(self, piece: str) -> list[tuple[int, int, str]]:
        results = self._analyzer.analyze(
            piece,
            language=self._pipeline.lang,
            entities=list(self._rules),
            score_threshold=self._threshold,
        )
        return [(result.start, result.end, self._rules[result.entity_type]) for result in results]


_everyone: weakref.WeakSet[_PresidioFinder] = weakref.WeakSet()


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces that overlap, cut at spaces where there are any, each with its offset."""
    start = 0
    while len(text) - start > _PIECE:
        end = _at_space(text, start + _PIECE)
        yield start, text[start:end]
        start = _at_space(text, end - _OVERLAP)
    if start < len(text):
        yield start, text[start:]


def _at_space(text: str, position: int) -> int:
    """The place behind the last space or line feed in the 100 characters before, else the position itself."""
    low = position - _OVERLAP
    return max(text.rfind(" ", low, position), text.rfind("\n", low, position)) + 1 or position


def _unlock_all() -> None:
    for finder in list(_everyone):
        finder.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_all)
