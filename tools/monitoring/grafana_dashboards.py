"""The dashboards as Grafana's JSON, built with Grafana's own SDK so that its types are checked."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from monitoring.fleet_board import FLEET
from monitoring.model import Board, Panel, Query
from monitoring.panel_parts import COLOURS
from monitoring.resource_board import RESOURCE

BOARDS: Final = (FLEET, RESOURCE)
_DATASOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="$datasource")
_WORD_COLOURS: Final = {**COLOURS, "yes": "green", "no": "orange", "unknown": "#8F8F8F", "no leader": "red"} | {
    "True": "green",
    "False": "red",
    "Unknown": "#8F8F8F",
}
_REF_IDS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_Builder = timeseries.Panel | stat.Panel | statetimeline.Panel | table.Panel


def dashboard_json(board: Board) -> str:
    """The dashboard's file. Equal boards make equal texts."""
    return JSONEncoder(sort_keys=True, indent=2).encode(_dashboard(board).build()) + "\n"


def _dashboard(board: Board) -> dashboard.Dashboard:
    builder = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["bucketingest"])
        .readonly()
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("bucketingest")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags(["bucketingest"])
            .as_dropdown(as_dropdown=True)
            .keep_time(keep_time=True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for name, query in board.variables.items():
        builder = builder.with_variable(_variable(board, name, query))
    numbers = count(1)
    for row in board.rows:
        builder = builder.with_row(dashboard.Row(row.title).id(next(numbers)))
        for panel in row.panels:
            builder = builder.with_panel(_panel(panel).id(next(numbers)))
    return builder


def _variable(board: Board, name: str, query: str) -> dashboard.QueryVariable:
    variable = (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(_DATASOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
    if board.many or name in board.many_of:
        variable = variable.multi(multi=True).include_all(include_all=True).all_value(".*")
        variable = variable.current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable


def _panel(panel: Panel) -> Any:
    make = {"timeseries": _timeseries, "stat": _stat, "table": _table, "states": _states}[panel.kind]
    builder: Any = make(panel)
    builder = (
        builder.title(panel.title)
        .description(panel.description)
        .datasource(_DATASOURCE)
        .height(panel.height)
        .span(panel.width)
    )
    if panel.kind != "table":
        builder = builder.unit("none" if panel.words else panel.unit)
    if panel.kind in {"stat", "timeseries"} and not panel.words:
        builder = builder.thresholds(_thresholds(panel))
    if panel.words and panel.kind != "table":
        builder = builder.mappings([_mapping(panel.words)])
    for ref_id, query in zip(_REF_IDS, panel.queries, strict=False):
        builder = builder.with_target(_target(panel, ref_id, query))
    return builder


def _target(panel: Panel, ref_id: str, query: Query) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(ref_id).expr(query.expr).legend_format(query.legend or "__auto")
    if panel.kind == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    return target.instant() if panel.kind == "stat" else target.range()


def _timeseries(panel: Panel) -> timeseries.Panel:
    builder = (
        timeseries.Panel()
        .min(0)
        .fill_opacity(30 if panel.stacked else 8)
        .line_width(1)
        .show_points(common_model.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_model.LegendDisplayMode.LIST)
            .placement(common_model.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_model.TooltipDisplayMode.MULTI)
            .sort(common_model.SortOrder.DESCENDING)
        )
    )
    if panel.stacked:
        builder = builder.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL))
    return builder


def _stat(panel: Panel) -> stat.Panel:
    return (
        stat.Panel()
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .color_mode(
            common_model.BigValueColorMode.BACKGROUND
            if panel.words or panel.steps
            else common_model.BigValueColorMode.NONE
        )
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def _states(_panel: Panel) -> statetimeline.Panel:
    return (
        statetimeline.Panel()
        .merge_values(merge_values=True)
        .fill_opacity(80)
        .show_value(common_model.VisibilityMode.AUTO)
    )


def _table(panel: Panel) -> table.Panel:
    """One line per resource: the queries' results side by side, the first one's column sorts."""
    titles = {f"Value #{ref_id}": query.legend for ref_id, query in zip(_REF_IDS, panel.queries, strict=False)}
    order = {name: place for place, name in enumerate(("namespace", "name", *titles))}
    builder = (
        table.Panel()
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize",
                options={"excludeByName": {"Time": True}, "indexByName": order, "renameByName": titles},
            )
        )
        .sort_by([common.TableSortByFieldState().display_name(panel.queries[0].legend).desc(desc=True)])
    )
    for title, properties in _columns(panel).items():
        builder = builder.override_by_name(title, properties)
    return builder


def _columns(panel: Panel) -> dict[str, list[model.DynamicConfigValue]]:
    def value(kind: str, content: object) -> model.DynamicConfigValue:
        return model.DynamicConfigValue(id_val=kind, value=content)

    def limits(*steps: tuple[float | None, str]) -> list[model.DynamicConfigValue]:
        return [
            value(
                "thresholds", {"mode": "absolute", "steps": [{"value": at, "color": colour} for at, colour in steps]}
            ),
            value("custom.cellOptions", {"type": "color-background"}),
        ]

    address = f"/d/{panel.link}?var-namespace=${{__data.fields.namespace}}&var-name=${{__data.fields.name}}"
    return {
        "name": [value("links", [{"title": "Why", "url": address}])],
        "trouble": limits((None, "green"), (1, "yellow"), (10, "orange"), (100, "red")),
        "phase": [value("mappings", [_mapping(panel.words)]), value("custom.cellOptions", {"type": "color-text"})],
        "no commit for": [value("unit", "s"), *limits((None, "transparent"), (60, "yellow"), (300, "red"))],
        "inflight for": [value("unit", "s"), *limits((None, "transparent"), (120, "yellow"), (600, "red"))],
        "late commits, 1 h": [
            value("unit", "percentunit"),
            *limits((None, "transparent"), (0.01, "yellow"), (0.1, "red")),
        ],
        "restarts, 1 h": [value("decimals", 0), *limits((None, "transparent"), (1, "yellow"), (4, "red"))],
        "dead letters, 1 h": [value("decimals", 0), *limits((None, "transparent"), (1, "yellow"))],
        "skew": [value("decimals", 1), *limits((None, "transparent"), (4, "yellow"))],
    }


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    steps = [model.Threshold(value=None, color="green")]
    steps += [model.Threshold(value=at, color=colour) for at, colour in panel.steps]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def _mapping(words: dict[str, str]) -> model.ValueMap:
    results = {
        key: model.ValueMappingResult(text=word, color=_WORD_COLOURS.get(word), index=place)
        for place, (key, word) in enumerate(words.items())
    }
    return model.ValueMap(options=results)
