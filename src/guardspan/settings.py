"""Configuration: one model, read from ``GUARDSPAN_*`` and from the keywords of ``instrument()``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from guardspan.safety import tell

CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURE_MEANS_REDACTED = {"SPAN_ONLY", "SPAN_AND_EVENT"}

ContentMode = Literal["shape", "redacted", "off"]


class Settings(BaseSettings):
    """What guardspan records and where.

    Every field is read from ``GUARDSPAN_<FIELD>``; a keyword given in code wins over the environment.

    Raises:
        pydantic.ValidationError: a value cannot be used. :meth:`from_environment` never raises.
    """

    model_config = SettingsConfigDict(
        env_prefix="GUARDSPAN_", extra="forbid", frozen=True, env_ignore_empty=True, hide_input_in_errors=True
    )

    content: ContentMode = Field(
        "shape", description="`shape`, `redacted` or `off`: what is recorded of content"
    )
    content_limit: int = Field(
        4096, ge=64, le=1_000_000, description="characters per content attribute, at most"
    )
    digest_key: SecretStr | None = Field(
        None, description="key of the content digests; a random one per process when unset"
    )
    redact_rules: Path | None = Field(
        None, description="a TOML or JSON file of redaction rules and key names of your own"
    )
    redact_digests: bool = Field(
        False, description="marks tell equal secrets: `[redacted:github#9f2c…]`, a digest keyed as the others"
    )
    redact_ip: bool = Field(False, description="redact IP addresses, too")
    redact_presidio: str | None = Field(
        None, description="a spaCy model with which presidio-analyzer finds names and places, to redact these"
    )
    prices: Path | None = Field(None, description="a JSON file of prices for models that genai-prices lacks")
    baggage_keys: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="baggage entries to copy onto the spans, comma separated; `team` always is"
    )
    evaluation_events: bool = Field(False, description="one log event per failed validator")
    genai_usage: bool = Field(
        False,
        description="also write `gen_ai.usage.*` on Iterations; leave off beside a provider instrumentation",
    )
    guardrails_tracing: Literal["off", "keep"] = Field(
        "off", description="Guardrails' own tracing while instrumented: it exports full content"
    )
    dir: Path = Field(Path(".guardspan"), description="folder of the `guardspan_file` exporter")
    file_limit: int = Field(
        64_000_000, ge=4096, description="bytes per file of `guardspan_file`, then a new one is begun"
    )
    dir_limit: int = Field(
        1_000_000_000,
        ge=4096,
        description="bytes in `GUARDSPAN_DIR`; beyond it the oldest closed files are removed",
    )

    @field_validator("content", mode="before")
    @classmethod
    def _in_any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("baggage_keys", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @classmethod
    def from_environment(cls, **keywords: Any) -> Settings:
        """Settings from the environment, keywords first; a faulty variable is logged, its default taken.

        Telemetry must not end a process over a typing mistake, so only keywords can raise.

        Raises:
            pydantic.ValidationError: a keyword's value cannot be used.
        """
        given = {name: value for name, value in keywords.items() if value is not None}
        if "content" not in given and not os.environ.get("GUARDSPAN_CONTENT") and _capture_asked_for():
            given["content"] = "redacted"
        faulty = environment_faults()
        for name, fault in faulty.items():
            tell(f"{name}: {fault}; using the default")
        defaults = {field: cls.model_fields[field].get_default() for field in map(_field_of, faulty)}
        if any(field.startswith("redact_") for field in defaults):
            tell("no content is recorded, for a setting of redaction cannot be used")
            defaults["content"] = given["content"] = "off"
        return cls(**{**defaults, **given})


def _capture_asked_for() -> bool:
    return os.environ.get(CAPTURE_VARIABLE, "").upper() in _CAPTURE_MEANS_REDACTED


def _field_of(variable: str) -> str:
    return variable.removeprefix("GUARDSPAN_").lower()


def environment_faults() -> dict[str, str]:
    """Unusable ``GUARDSPAN_*`` variables, each with what is wrong; the values themselves are never shown."""
    try:
        Settings()
    except ValidationError as error:
        return {f"GUARDSPAN_{str(fault['loc'][0]).upper()}": fault["msg"] for fault in error.errors()}
    return {}
