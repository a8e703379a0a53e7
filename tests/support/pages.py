"""The pages that people read, and what can be checked of them: links, commands, examples."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("make", "bucketingest", "kubectl", "helm")
COMPLETE_WORDS = 2
"""What has fewer words after the program's name only mentions a command."""
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")


def pages() -> list[Path]:
    """README files and everything in docs/."""
    return [ROOT / "README.md", ROOT / "charts" / "bucketingest" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a page shows. `words`: after the program's name; placeholders such as NAME stay."""

    page: Path
    text: str
    program: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.text}"


def links(page: Path) -> Iterator[str]:
    """Targets of all links, code left out."""
    text = _SPAN.sub("", _FENCE.sub("", page.read_text()))
    for found in _LINK.finditer(text):
        yield found[1] or found[2]


def anchors(page: Path) -> set[str]:
    """Names of the headings, as a browser jumps to them."""
    text = _FENCE.sub("", page.read_text())
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def blocks(page: Path, language: str) -> list[str]:
    """Fenced code of a language."""
    return [
        re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        for indent, name, code in _FENCE.findall(page.read_text())
        if name == language
    ]


def commands(page: Path) -> Iterator[Command]:
    """Commands in shell blocks, in indented blocks and between backticks."""
    text = page.read_text()
    lines = [line for code in blocks(page, "sh") for line in _joined(code)]
    rest = _FENCE.sub("", text)
    lines += [line.strip() for line in _joined(rest) if line.startswith("    ")]
    lines += [span for span in _SPAN.findall(rest) if " " in span]
    for line in lines:
        yield from _commands_of(page, line)


def typed(page: Path, *programs: str) -> list[Command]:
    """Commands of these programs that are complete enough to be typed, each line once, in the order of the page."""
    lines: dict[str, Command] = {}
    for command in commands(page):
        if command.program in programs and len(command.words) >= COMPLETE_WORDS:
            lines.setdefault(command.text, command)
    return list(lines.values())


def _joined(text: str) -> list[str]:
    return re.sub(r"\s*\\\n\s*", " ", text).splitlines()


def _commands_of(page: Path, line: str) -> Iterator[Command]:
    inner = re.findall(r"\$\(([^()]*)\)", line)
    outer = re.sub(r"\$\([^()]*\)", "VALUE", line)
    for part in (*re.split(r"\s\|\s|&&|;\s", outer), *inner):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            continue
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words and words[0] in PROGRAMS:
            yield Command(page, line, words[0], tuple(words[1:]))
