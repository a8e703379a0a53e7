"""Patterns of bucket rules: what is taken finds what it should, and what two engines could read differently is not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bucketingest.spec.partition_pattern import PATTERN_MAX, InvalidPattern, literal_pattern, read_pattern

LINE_SEPARATOR = chr(0x2028)


def found(pattern: str, *paths: str) -> list[str]:
    """The paths in which the pattern is found."""
    hits = pc.match_substring_regex(pa.array(paths), read_pattern(pattern).re2).to_pylist()
    return [path for path, hit in zip(paths, hits, strict=True) if hit]


@pytest.mark.parametrize(
    ("pattern", "paths", "expected"),
    [
        ("7-1", ["2027-11-01", "2026-11-01"], ["2027-11-01"]),
        ("^2027-", ["2027-11-01", "x2027-1"], ["2027-11-01"]),
        (r"-1[12]-\d\d$", ["2027-11-01", "2027-11-01/us", "2027-12-x1"], ["2027-11-01"]),
        ("a.c", ["abc", "aéc", "a😀c", f"a{LINE_SEPARATOR}c"], ["abc", "aéc", "a😀c"]),
        ("c$", ["abc", f"abc{LINE_SEPARATOR}", "cab"], ["abc", f"abc{LINE_SEPARATOR}"]),
        (r"c\z", ["abc", f"abc{LINE_SEPARATOR}"], ["abc"]),
        (r"^[^\d/]+/(us|e(?:u|a))$", ["x/us", "x/eu", "x/ea", "1/us", "x/uk"], ["x/us", "x/eu", "x/ea"]),
        (r"\w\s\W", ["a -", "é -", "a b"], ["a -"]),
        ("^x{2}y*$", ["xx", "xxyy", "x", "xxx"], ["xx", "xxyy"]),
        (r"^a\x2Cb\.\x3b$", ["a,b.;", "a,bx;"], ["a,b.;"]),
        (".*", ["", "us"], ["", "us"]),
        (r"[\]\-a-c]", ["]", "-", "b", "d"], ["]", "-", "b"]),
    ],
)
def test_a_pattern_is_searched_for_as_java_does(pattern: str, paths: list[str], expected: list[str]) -> None:
    assert found(pattern, *paths) == expected


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a,b", r"has ,, at which Hudi splits rules: write \\x2C"),
        ("a;b", r"write \\x3B"),
        ("x{1,2}", "has ,"),
        (" a", "starts or ends with a space"),
        ("a++", "two quantifiers"),
        ("a??", "two quantifiers"),
        ("[a-z&&[^b]]", "has & in brackets"),
        ("[[a]]", r"has \[ in brackets"),
        ("[]a]", "empty brackets"),
        ("[z-a]", "does not go from a character to a later one"),
        (r"\bus", r"has \\b, which is not known here"),
        (r"\p{L}", r"has \\p"),
        (r"\Qa.b\E", r"has \\Q"),
        (r"(a)\1", r"has \\1"),
        ("(?i)us", r"has a group \(\? of a kind"),
        ("a(?=b)", r"has a group \(\? of a kind"),
        ("us$/", "something after the end"),
        ("us^", "at the start only"),
        ("*", r"has \* where it has no meaning"),
        ("a{", "has braces without one number"),
        ("a{1001}", "has braces without one number"),
        ("(", "without a closing one"),
        (")", "without an opening one"),
        ("a\\", "ends too early"),
        ("[a", "ends too early"),
        ("a\tb", r"control character U\+0009"),
        ("(" * 17 + ")" * 17, "more than 16 groups"),
    ],
)
def test_what_java_and_re2_could_take_differently_is_refused_with_the_place(pattern: str, why: str) -> None:
    with pytest.raises(InvalidPattern, match=why) as refused:
        read_pattern(pattern)
    assert "at character" in str(refused.value)


def test_a_pattern_has_a_longest_length() -> None:
    with pytest.raises(InvalidPattern, match="characters"):
        read_pattern("a" * (PATTERN_MAX * 16 + 1))


@pytest.mark.parametrize("path", ["", "us", "2026-11-01", "a,b;c.d*(e)", "x=é z/😀", "^a$", r"a\z", "a" * 1024])
def test_the_pattern_of_a_path_is_found_in_that_path_alone(path: str) -> None:
    pattern = read_pattern(literal_pattern(path))
    assert pattern.literal == path
    assert found(literal_pattern(path), path, f"{path}x", f"x{path}", f"{path}{LINE_SEPARATOR}") == [path]


@pytest.mark.parametrize("pattern", ["us", "^us$", r"^a.b\z", r"us\z", r"^a|b\z"])
def test_other_patterns_are_none_of_a_path(pattern: str) -> None:
    assert read_pattern(pattern).literal is None
