"""Tests of the benchmarks' data, and of the score of the Numenta benchmark by hand."""

import math

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.anomaly.generated import DAY, KINDS, metric
from benchmarks.anomaly.nab import PROFILES, at, best, places
from benchmarks.data import DataFolder

STANDARD = PROFILES["standard"]


def series(n=100, windows=((40, 49),)):
    return places(np.arange(n), np.array(windows).reshape(-1, 2))


def total(one, detections, profile=STANDARD):
    scores = np.zeros(len(one.worth))
    scores[list(detections)] = 1.0
    return at([one], [scores], profile, 0.5)


def curve(x):
    return 2.0 / (1.0 + math.exp(5.0 * x)) - 1.0


LATE = 100.0 * (1.0 + curve(-0.5) / curve(-1.0)) / 2.0
COST = 100.0 / 2.0 * 0.11


# Only the first detection in a window counts.
DETECTED = [([], 0.0), ([40], 100.0), ([45], LATE), ([45, 46, 49], LATE), ([40, 45], 100.0)]
# A false detection costs less just after a window than before or far after the window.
DETECTED += [([40, 30], 100.0 - COST), ([40, 49 + 3], 100.0 + COST * curve(3 / 9))]
# Detections in the first part of a series do not count.
DETECTED += [([40, 90], 100.0 - COST), ([40, *range(15)], 100.0), ([40, 15], 100.0 - COST)]


@pytest.mark.parametrize(("detections", "expected"), DETECTED)
def test_scores_of_detections(detections, expected):
    assert total(series(), detections) == pytest.approx(expected)


def test_the_beginning_of_a_long_series_does_not_count():
    assert (series(10_000).window == -2).sum() == 750


@pytest.mark.parametrize(
    ("name", "false", "missed"), [("low FP", 0.22, 1.0), ("low FN", 0.11, 2.0)]
)
def test_profiles(name, false, missed):
    whole = 2.0 * (1.0 + missed)
    found = total(series(windows=((40, 49), (70, 79))), [20, 40], PROFILES[name])
    assert found == pytest.approx(100.0 * (1.0 + missed - false) / whole)


def test_the_best_threshold_is_one_for_all_series():
    scores = np.zeros(100)
    scores[[40, 30]] = 0.9, 0.4
    other = np.zeros(100)
    other[[40, 30]] = 0.5, 0.6
    # The scaled totals of four thresholds, calculated by hand.
    found = [at([series()] * 2, [scores, other], STANDARD, t) for t in (0.9, 0.6, 0.5, 0.4)]
    threshold, most = best([series()] * 2, [scores, other], STANDARD)
    assert (threshold, most) == (0.5, pytest.approx(max(found)))
    assert found == pytest.approx([50.0, 50.0 - 2.75, 100.0 - 2.75, 100.0 - 5.5])


def test_windows_may_begin_at_times_that_are_there_twice():
    one = places(np.array([0, 1, 2, 2, 3, 4, 4, 5]), np.array([[2, 4]]))
    assert one.window.tolist() == [-2, -1, 0, 0, 0, 0, -1, -1]


def test_made_metrics_have_five_incidents_that_are_apart():
    made = metric(3)
    ends = np.array([(one.first, one.last) for one in made.incidents])
    assert sorted(one.kind for one in made.incidents) == sorted(KINDS)
    assert (ends[:, 0] >= 4 * DAY).all()
    assert (ends[1:, 0] > ends[:-1, 1]).all()
    assert np.isfinite(made.values).all()
    assert (metric(3).values == made.values).all()


def test_a_missing_array_of_a_data_set_is_named(tmp_path):
    np.savez(tmp_path / "letter.npz", X=np.zeros((2, 1)), y=np.zeros(2))
    arrays = DataFolder(tmp_path).load("letter")
    with pytest.raises(SystemExit, match=r"letter\.npz has no array X_test, but X, y$"):
        arrays["X_test"]
    np.savez(tmp_path / "letter.npz", X=np.zeros((2, 1)), y=np.zeros(3))
    with pytest.raises(SystemExit, match=r"letter\.npz: X has 2 rows, and y 3"):
        DataFolder(tmp_path).load("letter")


def test_a_data_set_with_nan_is_named(tmp_path):
    np.savez(tmp_path / "letter.npz", X=np.array([[1.0], [np.nan]]), y=np.arange(2))
    with pytest.raises(SystemExit, match=r"letter\.npz: X has NaN or infinite values"):
        DataFolder(tmp_path).load("letter")


def test_a_file_that_is_no_archive_is_named(tmp_path):
    (tmp_path / "letter.npz").write_text("1,2")
    with pytest.raises(SystemExit, match=r"letter\.npz is no \.npz file"):
        DataFolder(tmp_path).load("letter")


def test_sets_that_no_part_uses_are_named(tmp_path, monkeypatch):
    command = ["benchmarks", "kernel", "--only", "auto", "--sets", "mine"]
    monkeypatch.setattr("sys.argv", [*command, "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="no part uses mine, but cpu, california, kin8nm"):
        main()
