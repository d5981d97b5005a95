"""Comparison of all regressors on all streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..data import DataFolder, Stream
from ..report import Report, progress
from ..timing import TURN, alternate
from .models import PEERS, SLOW, Model, is_there, models
from .scores import Scores, run
from .streams import SOURCES, load
from .tables import Results, report_all

SEEDS, QUICK_SAMPLES = 3, 300
QUICK_STREAMS = ("TrumpApproval", "Friedman", "counts")


def _runs(models_: dict[str, Model], samples: Stream, delay: int, seeds: int) -> dict[str, Any]:
    """Run models on a stream in turns; return the summaries of their seeds by model."""
    features = len(samples[0][0])
    runs, scores = {}, {}
    for name, model in models_.items():
        most = SLOW.get(name)
        if most is not None and (features > most[0] or len(samples) > most[1]):
            continue
        for seed in range(1, (seeds if model.seeded else 1) + 1):
            key = f"{name}/{seed}"
            scores[key] = Scores(len(samples))
            runs[key] = run(model, seed, samples, delay, scores[key])
    alternate(runs, TURN)
    found: dict[str, Any] = {}
    for key, score in scores.items():
        found.setdefault(key.rpartition("/")[0], []).append(score.summary())
    return found


def streams(
    data: DataFolder,
    report: Report,
    quick: bool,
    known: Path | None = None,
    chosen: tuple[str, ...] = (),
    seeds: int = 0,
) -> None:
    """Compare errors, densities, coverage and times of regressors on all streams.

    Results in `known`, a file of an earlier run, are not computed again. If `chosen` has models,
    only these models run.
    """
    results: Results = json.loads(known.read_text()) if known is not None else {}
    wanted = {name: model for name, model in models().items() if not chosen or name in chosen}
    for name in QUICK_STREAMS if quick else SOURCES:
        samples = load(data, name, QUICK_SAMPLES if quick else None)
        if samples is None:
            continue
        left = {m: wanted[m] for m in wanted if m not in results.get(name, {})}
        if quick and "SRP of 3" in left:
            del left["SRP of 3"]
        progress(f"{name}: {', '.join(left)}")
        found = _runs(left, samples, SOURCES[name].delay, seeds or (1 if quick else SEEDS))
        results.setdefault(name, {}).update(found)
        report.out.mkdir(parents=True, exist_ok=True)
        path = report.out / f"{report.name}.json"
        path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if not is_there():
        report.note(f"The estimator under test does not exist yet: {len(PEERS)} others.")
    report_all({name: results[name] for name in SOURCES if name in results}, report)
