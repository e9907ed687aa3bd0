"""From runs to figures: medians, spread, shares of the limit, and whether losses fell alike."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

BAND = 0.15  # how close the mean loss of the last quarter of the steps must be to the median contestant's


def summarise(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every (what, model, threads, contestant)."""
    groups: dict[tuple[str, str, int], dict[str, list[dict[str, Any]]]] = {}
    for run in runs:
        work = (run["what"], run["model"], run["threads"])
        groups.setdefault(work, {}).setdefault(run["contestant"], []).append(run)
    rows = []
    for (what, model, threads), contestants in groups.items():
        found = [
            {"what": what, "model": model, "threads": threads, "contestant": name, **_rates(mine, what)}
            for name, mine in contestants.items()
        ]
        _compare(found, contestants)
        rows += sorted(found, key=lambda row: -max(row["rates"].values(), default=0))
    return rows


def _series(run: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = (
        run["sentences_per_second"] if run["what"] == "decode" else {"tokens/s": run["tokens_per_second"]}
    )
    return found


def _rates(runs: list[dict[str, Any]], what: str) -> dict[str, Any]:
    good = [run for run in runs if "failed" not in run]
    if not good:
        return {"rates": {}, "failed": runs[-1]["failed"]}
    series = [_series(run) for run in good]
    rows: dict[str, Any] = {
        "rates": {name: median(s[name] for s in series) for name in series[0]},
        "spread": {name: [min(s[name] for s in series), max(s[name] for s in series)] for name in series[0]},
        "peak_mb": median(run["peak_mb"] for run in good),
        "rounds": len(good),
        "without": good[0].get("without", {}),
    }
    if what == "train":
        last = max(1, len(good[0]["losses"]) // 4)
        rows |= {
            "loss": median(sum(run["losses"][-last:]) / last for run in good),
            "losses": good[0]["losses"],
            "parameters": good[0]["parameters"],
            "tokens_per_cpu_second": median(run["tokens_per_cpu_second"] for run in good),
        }
    return rows


def _compare(rows: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]]) -> None:
    """Add shares of the limit, and whether a loss lies within the band. A share is the median of the shares of the
    rounds, each of that round's own limit: a machine is faster in one round than in another, for all alike."""
    limits = {run["round"]: _series(run) for run in runs.get("limit", []) if "failed" not in run}
    losses = [row["loss"] for row in rows if row.get("loss")]
    for row in rows:
        pairs = [
            (_series(run), limits[run["round"]])
            for run in runs[row["contestant"]]
            if "failed" not in run and run["round"] in limits
        ]
        if pairs:
            row["share"] = {
                name: median(rates[name] / limit[name] for rates, limit in pairs)
                for name in row["rates"]
                if pairs[0][1].get(name)
            }
        if row.get("loss"):
            row["alike"] = bool(math.isclose(row["loss"], median(losses), rel_tol=BAND))


def table(rows: list[dict[str, Any]], absent: dict[str, dict[str, str]]) -> str:
    """Everything as text: a block a work, and in it a part for every way to search, the fastest first."""
    blocks: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        work = f"{row['what']} {row['model']}, {row['threads']} thread{'s' * (row['threads'] > 1)}"
        block = blocks.setdefault(work, {})
        if "failed" in row:
            block.setdefault("", []).append(f"  {row['contestant']:26} failed: {row['failed']}")
            continue
        for name in row["rates"]:
            block.setdefault(name, []).append(_line(row, name))
        for name, why in row["without"].items():
            block.setdefault(name, []).append(f"  {row['contestant']:26} {name:16} not measured: {why}")
    lines = [
        line for work, block in blocks.items() for line in ("", work, *(x for part in block.values() for x in part))
    ]
    for work, reasons in absent.items():
        lines += ["", f"not in {work}:", *(f"  {name}: {why}" for name, why in reasons.items())]
    return "\n".join(lines)


def _line(row: dict[str, Any], name: str) -> str:
    low, high = row["spread"][name]
    line = f"  {row['contestant']:26} {name:16} {row['rates'][name]:8,.1f}  ({low:,.1f} to {high:,.1f})"
    if name in row.get("share", {}):
        line += f"  {row['share'][name]:5.0%} of the limit"
    if row.get("loss"):
        line += f"  loss {row['loss']:.2f}{'' if row['alike'] else ' NOT ALIKE'}  {row['parameters'] / 1e6:.1f} M"
    return f"{line}  {row['peak_mb']:,.0f} MB"
