"""What `import river_mondrian` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import river_mondrian


@pytest.mark.parametrize("name", river_mondrian.__all__)
def test_all_names_are_there(name):
    found = getattr(river_mondrian, name)
    assert found.__name__ == name
    assert found.__module__.startswith("river_mondrian.")
    assert name in dir(river_mondrian)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="'river_mondrian' has no attribute 'Forest'"):
        _ = river_mondrian.Forest


def test_one_estimator_does_not_import_the_others():
    code = """
import sys
from river_mondrian import MondrianForestClassifier
print(*[name for name in sys.modules if name.startswith("river_mondrian.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "river_mondrian.classifier" in imported
    assert not {"river_mondrian.estimators.adaptive", "river_mondrian.estimators.density"} & set(
        imported
    )
