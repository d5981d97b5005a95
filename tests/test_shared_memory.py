"""Tests of models whose arrays are in memory of other owners: memmaps, processes, Ray."""

import joblib
import pytest
from stored_models import IN_GOLDEN, answers, learn, learned, stream

models = pytest.mark.parametrize("name", IN_GOLDEN)


@models
@pytest.mark.parametrize("n", [3, 300])
def test_memmaps(name, n, tmp_path):
    model, path = learned(name, n), tmp_path / "model.joblib"
    joblib.dump(model, path)
    before = path.read_bytes()
    expected = learned_there(model)
    for mode in ("r", "r+"):
        assert learned_there(joblib.load(path, mmap_mode=mode)) == expected
    # The file is unchanged.
    assert path.read_bytes() == before


def learned_there(model):
    learn(model, stream(60, 7, ("a", "b", "c"), 3))
    return answers(model)


def test_processes_that_share_arrays():
    there = [learned(name, 300) for name in IN_GOLDEN]
    # All arrays are memory of a file that both processes map.
    work = joblib.Parallel(n_jobs=2, max_nbytes=1)
    found = work(joblib.delayed(learned_there)(model) for model in there)
    assert found == [learned_there(model) for model in there]
