"""Which object paths are allowed, in one place, so that every backend takes and refuses the same names."""

from __future__ import annotations

from bucketingest.storage.errors import InvalidLocation

_FIRST_PRINTABLE = 0x20
_DELETE = 0x7F


def check_path(url: str, path: str) -> str:
    """Return ``path`` as it is if every backend can hold an object of exactly this name, else raise InvalidLocation."""
    problem = path_problem(path)
    if problem is not None:
        raise InvalidLocation(f"{url}: cannot use {path!r} as an object's path: {problem}")
    return path


def check_prefix(url: str, prefix: str) -> str:
    """Return the directory path without a trailing slash; "" is the root. Raises InvalidLocation."""
    directory = prefix.removesuffix("/")
    return check_path(url, directory) if directory else ""


def path_problem(path: str) -> str | None:
    """What is wrong with an object's path, or None. Pure."""
    if not path:
        return "it is empty; name an object below the root"
    if path.isprintable() and not _has_odd_segment(path):
        return None  # the ordinary path, recognised by a few scans in C
    if path.startswith("/") or path.endswith("/"):
        return "it must not start or end with '/'"
    for segment in path.split("/"):
        if segment == "":
            return "it has an empty segment ('//')"
        if segment in (".", ".."):
            return f"the segment {segment!r} would leave its directory"
    if any(ord(character) < _FIRST_PRINTABLE or ord(character) == _DELETE for character in path):
        return "it has a control character, which object stores refuse"
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not valid unicode (a lone surrogate)"
    return None


def _has_odd_segment(path: str) -> bool:
    """Whether a segment is empty, "." or ".."; names that begin with a dot are ordinary, log files have them."""
    return (
        "//" in path
        or "/./" in path
        or "/../" in path
        or path.startswith(("/", "./", "../"))
        or path.endswith(("/", "/.", "/.."))
        or path in (".", "..")
    )
