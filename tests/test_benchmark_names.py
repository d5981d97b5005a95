"""Benchmarks take hours, so that a name that was moved away from them would be found late."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import types

import pytest

import benchmarks

MODULES = [
    found.name
    for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not found.name.endswith("__main__")
]


def missing(module: types.ModuleType) -> list[str]:
    """Return attributes of imported modules that are read and do not exist."""
    return [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and isinstance(vars(module).get(node.value.id), types.ModuleType)
        and not hasattr(vars(module)[node.value.id], node.attr)
    ]


@pytest.mark.parametrize("name", MODULES)
def test_names_of_other_modules_exist(name):
    assert not missing(importlib.import_module(name))


def test_a_missing_name_is_found(monkeypatch):
    robust = importlib.import_module("benchmarks.robustness.outliers")
    monkeypatch.delattr(robust.comparing, "WIDE")
    assert missing(robust) == ["comparing.WIDE"]
