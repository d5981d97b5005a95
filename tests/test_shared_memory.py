"""Models whose arrays are in memory of other owners: memmaps, other processes, Ray."""

import pickle

import joblib
import numpy as np
import pytest
from stored_models import IN_GOLDEN, answers, learn, learned, stream

models = pytest.mark.parametrize("name", IN_GOLDEN)


@models
@pytest.mark.parametrize("n", [3, 300])
def test_memmaps(name, n, tmp_path):
    model = learned(name, n)
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    before = path.read_bytes()
    read_only = joblib.load(path, mmap_mode="r")
    writable = joblib.load(path, mmap_mode="r+")
    for one in (model, read_only, writable):
        learn(one, stream(60, 7, ("a", "b", "c"), 3))
    assert answers(read_only) == answers(writable) == answers(model)
    # Nothing is written to the file.
    assert path.read_bytes() == before
    assert not any(isinstance(found, np.memmap) for found in arrays_in(read_only))


def arrays_in(model):
    """Yield the arrays in a pickle of a model."""
    found = []

    class Reading(pickle.Pickler):
        def reducer_override(self, one):
            if isinstance(one, np.ndarray):
                found.append(one)
            return NotImplemented

    with open("/dev/null", "wb") as nowhere:
        Reading(nowhere, protocol=5).dump(model)
    return found


def learned_there(model):
    learn(model, stream(60, 7, ("a", "b", "c"), 3))
    return answers(model)


def test_processes_that_share_arrays():
    there = {name: learned(name, 300) for name in IN_GOLDEN}
    # All arrays are memory of a file that both processes map.
    work = joblib.Parallel(n_jobs=2, max_nbytes=1)
    found = work(joblib.delayed(learned_there)(model) for model in there.values())
    for name, theirs in zip(there, found, strict=True):
        assert theirs == learned_there(there[name]), name
