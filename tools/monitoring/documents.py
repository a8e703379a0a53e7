"""The format of generated YAML: no wrapped texts, long expressions as blocks, and a first line with the origin."""

from __future__ import annotations

from typing import Any, Final

import yaml

HEADER: Final = "# Made by `make monitoring` from tools/monitoring. Do not edit.\n"


def to_yaml(document: dict[str, Any]) -> str:
    """The document as the text of a checked-in file."""
    return HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100_000)


class _Dumper(yaml.SafeDumper):
    """No anchors; texts of several lines as blocks."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
