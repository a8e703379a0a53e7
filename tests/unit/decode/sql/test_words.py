"""What of SQL's text is Spark's is named before Spark is started; what looks like it and is not, is let through."""

from __future__ import annotations

import pytest

from bucketingest.decode.sql.words import why_no_query, why_spark


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT regexp_replace(a, 'x', 'y') FROM source", "calls regexp_replace"),
        ("SELECT Explode (l) FROM source", "calls explode"),
        ("SELECT count(*) FROM source", "calls count"),
        ("SELECT a FROM source GROUP BY a", "has GROUP BY"),
        ("SELECT a FROM source\nORDER  BY a", "has ORDER BY"),
        ("SELECT DISTINCT a FROM source", "has SELECT DISTINCT"),
        ("SELECT a FROM source LIMIT 3", "has LIMIT"),
        ("SELECT s.a FROM source s JOIN other o ON s.a = o.a", "has JOIN"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "has WITH"),
        ("SELECT a FROM source UNION ALL SELECT a FROM source", "has UNION"),
        ("SELECT t + INTERVAL 1 DAY FROM source", "has INTERVAL"),
        ("SELECT a RLIKE 'x' FROM source", "has RLIKE"),
        ("SELECT try_cast(a AS INT) FROM source", "calls try_cast"),
        ("SELECT sum(a) OVER (PARTITION BY b) FROM source", "calls sum"),
        ("SELECT l[0] FROM source", "has ["),
        ("SELECT a & 1 FROM source", "has &"),
        ("SELECT transform(l, x -> x) FROM source", "calls transform"),
        ("FROM source |> SELECT a", "has |>"),
        ("SELECT a /* trim( */ , soundex(a) FROM source", "calls soundex"),
    ],
)
def test_what_is_sparks_is_named(sql: str, why: str) -> None:
    assert why_spark(sql) == why


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT *, date_format(at, 'yyyy-MM-dd') AS dt FROM source",
        "SELECT CASE WHEN (a > 1) THEN (b) ELSE (c) END FROM source WHERE (a) IN (1, 2) AND NOT (b = 'x')",
        "SELECT CAST(a AS DECIMAL(10, 2)), a::int, a || 'x', a <=> b, -a, a != 1 FROM (SELECT * FROM source) s",
        "SELECT 'JOIN regexp_replace(x) [' AS a, `group by [` FROM source -- UNION ALL sqrt(a)",
        "SELECT limit, offset, order, position, s.group FROM source",
        "SELECT 1e3, 1.5D, .5, 7L, 'it\\'s [' FROM source;",
        "gone OR quantity < 0",
    ],
)
def test_what_only_looks_like_it_is_not(sql: str) -> None:
    assert why_spark(sql) is None


@pytest.mark.parametrize(
    "sql", ["/* a /* don't */ b */ SELECT 1 FROM source", "SELECT id -- don't\rFROM source", "/**//***/TABLE source"]
)
def test_a_comment_ends_where_sparks_ends(sql: str) -> None:
    assert why_no_query(sql) is None


@pytest.mark.parametrize("sql", [r"SELECT split(a, r'\') FROM source", r'SELECT split(a, R"(\") AS b FROM source'])
def test_a_backslash_at_the_end_of_a_raw_text_does_not_keep_it_open(sql: str) -> None:
    assert why_no_query(sql) is None
