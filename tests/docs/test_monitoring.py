"""The dashboard and the alerts of the documentation name metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.call.stages.till import till
from tests.gateway.test_calls import get
from trunkline.telemetry.record import OUTCOMES

SELECTED, SUMMED = re.compile(r'(\w+)=~?"([^"]*)"'), re.compile(r"by \(([^)]*)\)")
FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"


async def test_the_dashboard_and_the_alerts_name_metrics_and_labels_that_exist(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    dashboard: Any = json.loads((FOLDER / "grafana.json").read_text())
    alerts: Any = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    async with till(tmp_path, http, audit={"enabled": True}) as at:
        await at.modern().call("get_balance", {"account": "x"})
        text = await get(at, "/metrics", "")

    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    there = {sample.name for sample in samples}
    named = {name for expression in asked for name in re.findall(r"trunkline_\w+", expression)}
    assert len(named) > 10
    assert named - there == set()
    # What they select by and sum up by exists as well, and so do the outcomes and directions that they name.
    selected = [(one.group(1), one.group(2)) for each in asked for one in SELECTED.finditer(each)]
    summed = {label for each in asked for one in SUMMED.finditer(each) for label in one.group(1).split(", ")}
    assert summed | {label for label, _ in selected} <= {label for sample in samples for label in sample.labels}
    outcomes = {value for label, values in selected if label == "outcome" for value in values.split("|")}
    assert outcomes
    assert outcomes <= set(OUTCOMES)
