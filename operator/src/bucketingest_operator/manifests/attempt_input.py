"""What an attempt is started with, as annotations of its objects: a later pass compares it with what is wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from bucketingest.spec.model import API_GROUP
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.observation import AttemptInput

_SPEC_DIGEST: Final = f"{API_GROUP}/spec-digest"
_FIXED_DIGEST: Final = f"{API_GROUP}/fixed-digest"
_NONCE: Final = f"{API_GROUP}/restart"
_FAILURES: Final = f"{API_GROUP}/failures"
NONCE_MAX: Final = 256
"""Characters of an annotation of a resource that are read."""
_DIGEST_FORM: Final = re.compile(r"[0-9A-Za-z]{1,64}")
_FAILURES_FORM: Final = re.compile(r"([0-9]{1,10}(,[0-9]{1,10}){0,999})?")
"""Unix times up to the year 2286, of more failures than a window holds."""


def input_annotations(attempt_input: AttemptInput) -> dict[str, str]:
    """An attempt's input as annotations of its objects."""
    return {
        _SPEC_DIGEST: attempt_input.spec_digest,
        _FIXED_DIGEST: attempt_input.fixed_digest,
        _NONCE: attempt_input.nonce,
        _FAILURES: ",".join(str(int(end.timestamp())) for end in attempt_input.failures),
    }


def parse_attempt_input(annotations: Mapping[str, str]) -> AttemptInput | None:
    """The input in annotations; None if they have none, or if it cannot be parsed."""
    spec, fixed = read_digest(annotations.get(_SPEC_DIGEST)), read_digest(annotations.get(_FIXED_DIGEST))
    if spec is None or fixed is None:
        return None
    text = annotations.get(_FAILURES, "")
    if not _FAILURES_FORM.fullmatch(text):
        return None
    failures = tuple(datetime.fromtimestamp(int(each), UTC) for each in text.split(",") if each)
    return AttemptInput(spec, fixed, plain(annotations.get(_NONCE, "")[:NONCE_MAX]), failures)


def read_digest(text: str | None) -> str | None:
    """A digest in an annotation; None for what cannot be one: decisions are logged with it."""
    return text if text is not None and _DIGEST_FORM.fullmatch(text) else None
