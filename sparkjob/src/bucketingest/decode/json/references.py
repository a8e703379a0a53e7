"""Finds what a JSON Schema refers to, in it and in the documents that a registry has with it: by pointers, anchors and
URIs, as the drafts from 4 to 2020-12 have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin

from bucketingest.decode.avro.schema import UnreadableSchema

_NOWHERE: Final = "file:///"
"""Where a document is whose name is no URI."""
_IDS: Final = ("$id", "id")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class Documents:
    """`documents`: schemas by the names of the references; the one that is read has none."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._known: dict[str, Any] = {}
        """By URI, and by URI, # and anchor."""
        self.root = documents[""]
        self.base = base_of(self.root, _NOWHERE)
        """Of the one that is read."""
        for name, each in documents.items():
            for around in (self.base, _NOWHERE):
                self._known.setdefault(_joined(around, name), each)
            self._add(each, _joined(self.base, name))

    def _add(self, schema: Any, base: str) -> None:
        """Know all that has an id or an anchor."""
        if isinstance(schema, dict):
            base = base_of(schema, base)
            names = [name for key in _ANCHORS if isinstance(name := schema.get(key), str)]
            for given in (given for key in _IDS if isinstance(given := schema.get(key), str)):
                if given.startswith("#"):  # an anchor, until draft 7
                    names.append(given[1:])
                else:
                    self._known.setdefault(base, schema)
            for name in names:
                self._known.setdefault(f"{base}#{name}", schema)
        for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            self._add(each, base)

    def at(self, reference: str, base: str) -> tuple[Any, str]:
        """What a schema at the base refers to, and the base around that one. Raises UnreadableSchema."""
        uri, _, fragment = reference.partition("#")
        places = [_joined(around, each) for around in (base, _NOWHERE) for each in (uri, unquote(uri))]
        place = next((each for each in places if each in self._known), None)
        if place is None:
            raise UnreadableSchema(f"refers to {uri}, which the registry does not have among its references")
        try:
            if fragment and not fragment.startswith("/"):
                return self._known[f"{place}#{unquote(fragment)}"], place
            found = self._known[place]
            for each in unquote(fragment).split("/")[1:]:
                place = base_of(found, place)
                step = each.replace("~1", "/").replace("~0", "~")
                found = found[int(step)] if isinstance(found, list) else found[step]
        except (LookupError, ValueError, TypeError) as error:
            raise UnreadableSchema(f"refers to {reference}, which is not there") from error
        return found, place


def base_of(schema: Any, around: str) -> str:
    """The URI by which references in a schema count, of one inside another at `around`."""
    for given in (schema.get(key) for key in _IDS) if isinstance(schema, dict) else ():
        if isinstance(given, str) and not given.startswith("#"):
            return _joined(around, given).partition("#")[0]
    return around


def _joined(around: str, uri: str) -> str:
    try:
        return urljoin(around, uri) if uri else around
    except ValueError:  # it is no URI
        return uri
