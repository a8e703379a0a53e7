"""Reads what Spark made of the SQL: its resolved plan, with every type and every cast that it inserted. What is more
than a SELECT of expressions that are evaluated on Arrow is refused, by name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StringType, StructType, _parse_datatype_json_string

from bucketingest.decode.sql.evaluation import Rows, evaluate
from bucketingest.decode.sql.kernels import CHOICES, KERNELS
from bucketingest.decode.sql.nodes import Node, RowsInDoubt
from bucketingest.decode.sql.program import Program, Select, Step, Where, failing_twice, over_source, reordered_in

_SHOWN: Final = 80
_REPLACED: Final = frozenset({"Between", "Left", "NullIf", "Nvl", "Nvl2", "ParseToDate", "StringTrimBoth"})
"""Expressions that Spark replaces by others."""
_CONF: Final = frozenset(
    {
        "spark.sql.adaptive.enabled",
        "spark.sql.artifact.isolation.enabled",
        "spark.sql.optimizer.enablejsonexpressionoptimization",
        "spark.sql.session.timezone",
    }
)
_CONF_BEGINNINGS: Final = (
    "spark.sql.catalogimplementation",
    "spark.sql.execution.arrow.",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.warehouse.",
)


class NotOnArrow(Exception):
    """The SQL is Spark's, in words that say why."""


def read_program(shaped: DataFrame, source: pa.Schema) -> Program:
    """What makes the rows of `shaped` of those of the view `source`, whose columns are given. Nothing is read.

    Raises NotOnArrow.
    """
    if (name := _setting(shaped)) is not None:
        raise NotOnArrow(f"is evaluated with the session's {name}")
    schema = pa.schema(list(to_arrow_schema(shaped.schema, timezone="UTC")))
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise NotOnArrow("has columns of the same name")
    try:
        steps = _steps(shaped._jdf.queryExecution().analyzed())  # noqa: SLF001 - PySpark has no other way
        program = Program(tuple(steps), schema)
        made = program.with_types_of(source)
    except (Py4JError, KeyError) as error:
        raise NotOnArrow("has a plan of another form than is known") from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise NotOnArrow(f"has what Arrow does not do: {error}") from error
    for field, wanted in zip(made, schema, strict=True):
        if field.type != wanted.type:
            raise NotOnArrow(f"has {field.name}, a {wanted.type} for Spark and a {field.type} here")
    return program


def _steps(plan: Any) -> list[Step]:
    """What is done with the view's rows, in this order."""
    plans = list(_chain(plan))
    numbers = _numbers(_each(plans.pop().output()))
    steps: list[Step] = []
    columns: tuple[Node, ...] | None = None
    for each in reversed(plans):
        reader = _Reader(numbers)
        if _name(each) == "Filter":
            condition = reader.node(each.condition())
            steps.append(Where(condition))
            _check(Where(over_source(condition, columns)))
        else:
            listed = list(_each(each.projectList()))
            made = tuple(reader.node(column) for column in listed)
            steps.append(Select(made))
            columns = tuple(over_source(column, columns) for column in made)
            _check(Select(columns))
            numbers = _numbers(iter(listed))
    return steps


def _check(step: Step) -> None:
    """Raises NotOnArrow if Spark may fail where the step does not, because it computes in another order."""
    for root in (step.condition,) if isinstance(step, Where) else step.columns:
        if (other := reordered_in(root)) is not None:
            raise NotOnArrow(f"has {other.text}, which Spark may compute in another order")
    if (twice := failing_twice(step)) is not None:
        raise NotOnArrow(f"has more than once {twice.text}, which can fail and is not always needed")


def _setting(rows: DataFrame) -> str | None:
    """A setting of the session that may change what SQL means."""
    conf: Any = rows.sparkSession._jsparkSession.sessionState().conf()  # noqa: SLF001 - PySpark has no other way
    for name in sorted(map(str, _each(conf.getAllConfs().keys().toSeq()))):
        low = name.lower()
        if low.startswith("spark.sql.") and low not in _CONF and not low.startswith(_CONF_BEGINNINGS):
            if low == "spark.sql.ansi.enabled" and conf.ansiEnabled():
                continue
            return name
    return None if conf.ansiEnabled() else "spark.sql.ansi.enabled"


def _chain(plan: Any) -> Iterator[Any]:
    """The SELECTs and WHEREs from the outermost on, and last the view."""
    while (name := _name(plan)) != "View":
        if name in {"Project", "Filter"}:
            yield plan
        elif name != "SubqueryAlias":
            raise NotOnArrow(f"has the operator {name}")
        (plan,) = _each(plan.children())
    if str(plan.desc().identifier().table()) != "source":
        raise NotOnArrow("reads another view")
    yield plan


def _numbers(columns: Iterator[Any]) -> dict[int, int]:
    """The places of columns, by Spark's numbers of them."""
    return {int(each.exprId().id()): place for place, each in enumerate(columns)}


def _each(sequence: Any) -> Iterator[Any]:
    """The items of one of Scala's."""
    for at in range(sequence.size()):
        yield sequence.apply(at)


def _name(java: Any) -> str:
    return str(java.getClass().getSimpleName()).removesuffix("$")


class _Reader:
    """Reads expressions over a SELECT's columns."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self._numbers = numbers
        self._common: dict[str, Any] = {}
        """Expressions that Spark has named, because they are used twice."""

    def node(self, java: Any) -> Node:
        """Raises NotOnArrow."""
        kind = _name(java)
        if kind == "Alias":
            return self.node(java.child())
        if kind == "With":
            for each in _each(java.defs()):
                self._common[each.id().toString()] = each.child()
            return self.node(java.child())
        if kind == "CommonExpressionRef":
            return self.node(self._common[java.id().toString()])
        if kind in _REPLACED:
            return self.node(java.replacement())
        type_ = _type(java)
        if kind == "AttributeReference":
            return Node(kind, type_, value=self._numbers[int(java.exprId().id())])
        if kind == "Literal":
            return Node(kind, type_, value=_literal(java, type_))
        if kind == "TypedNullLiteral":
            return Node("Literal", type_)
        text = _shortened(java)
        if kind not in KERNELS and kind not in CHOICES:
            raise NotOnArrow(f"has {text}")
        if _mode(java, kind) not in {None, "ANSI"}:
            raise NotOnArrow(f"has {text}, which does not fail as others do")
        operands = tuple(self.node(each) for each in _each(java.children()))
        value = java.ordinal() if kind == "GetStructField" else None
        return _proven(Node(kind, type_, operands, value, text))


def _proven(node: Node) -> Node:
    """The node, or the literal that it is. Raises NotOnArrow if it is not for these types."""
    if node.kind in CHOICES:
        values = [each for at, each in enumerate(node.nodes) if not _is_condition(node, at)]
        if any(each.type != node.type for each in values):
            raise NotOnArrow(f"has {node.text}, whose parts have several types")
        return node
    kernel = KERNELS[node.kind]
    if not kernel.takes(node):
        raise NotOnArrow(f"has {node.text} of {', '.join(str(each.type) for each in node.nodes)}")
    is_fixed = all(each.is_literal for each in node.nodes)
    try:
        (columns, places), length = _columns_of(node), int(is_fixed)
        tried = Node(node.kind, node.type, places, node.value, node.text)
        made = evaluate(tried, Rows(columns, length))
    except RowsInDoubt as error:  # Spark evaluates what is fixed even if there is no row
        raise NotOnArrow(f"has {node.text}, whose value Spark has to say") from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise NotOnArrow(f"has {node.text}, which Arrow does not do: {error}") from error
    if made.type != node.type:
        raise NotOnArrow(f"has {node.text}, a {node.type} for Spark and a {made.type} here")
    if is_fixed and not pa.types.is_nested(node.type):
        value = made[0].value if pa.types.is_temporal(node.type) else made[0].as_py()
        return Node("Literal", node.type, value=value, text=node.text)
    return node


def _columns_of(node: Node) -> tuple[list[pa.Array], tuple[Node, ...]]:
    """Columns without rows in place of the operands that are not literals."""
    columns: list[pa.Array] = []
    places: list[Node] = []
    for each in node.nodes:
        if each.is_literal:
            places.append(each)
        else:
            places.append(Node("AttributeReference", each.type, value=len(columns)))
            columns.append(pa.nulls(0, each.type))
    return columns, tuple(places)


def _is_condition(node: Node, at: int) -> bool:
    """Whether the operand decides, and is not a value."""
    if node.kind == "If":
        return at == 0
    return node.kind == "CaseWhen" and at % 2 == 0 and at < len(node.nodes) - 1


def _mode(java: Any, kind: str) -> str | None:
    """What happens to a value that does not fit."""
    if kind not in {"Add", "Cast", "Divide", "IntegralDivide", "Multiply", "Remainder", "Subtract"}:
        return None
    return str(java.evalMode().toString())


def _type(java: Any) -> pa.DataType:
    kind = _arrow_type(str(java.dataType().json()))
    if isinstance(kind, str):
        raise NotOnArrow(f"has {_shortened(java)}, a {kind}")
    return kind


@functools.cache
def _arrow_type(json: str) -> pa.DataType | str:
    """Arrow's type; in words if Arrow has no such type."""
    kind = _parse_datatype_json_string(json)
    if any(isinstance(each, StringType) and not each.isUTF8BinaryCollation() for each in _types_in(kind)):
        return "text with a collation"
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkException:
        return kind.simpleString()


def _types_in(kind: DataType) -> Iterator[DataType]:
    yield kind
    if isinstance(kind, StructType):
        for each in kind.fields:
            yield from _types_in(each.dataType)
    for name in ("elementType", "keyType", "valueType"):
        if isinstance(inner := getattr(kind, name, None), DataType):
            yield from _types_in(inner)


def _literal(java: Any, kind: pa.DataType) -> Any:
    """The value as Arrow's constructor takes it; of dates and times the number that it is to Spark."""
    value = java.value()
    if value is None:
        return None
    if pa.types.is_string(kind):
        return str(value.toString()) if isinstance(value, JavaObject) else str(value)
    if pa.types.is_decimal(kind):
        return Decimal(value.toString())
    if isinstance(value, JavaObject) or not (
        pa.types.is_primitive(kind) and (pa.types.is_boolean(kind) or isinstance(value, int | float))
    ):
        raise NotOnArrow(f"has {_shortened(java)}, a {kind}")
    return value


def _shortened(java: Any) -> str:
    text = " ".join(str(java.sql()).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
