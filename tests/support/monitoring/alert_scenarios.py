"""For every alert: the scraped series, when the alert must fire, and when it must be silent."""

from support.monitoring.scenarios import healing, objectives, operators, services, table

SCENARIOS = (
    *objectives.SCENARIOS,
    *healing.SCENARIOS,
    *table.SCENARIOS,
    *services.SCENARIOS,
    *operators.SCENARIOS,
)
