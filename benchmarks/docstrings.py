"""Write a data set of texts with many classes: docstrings, with the package as the class.

    python -m benchmarks.docstrings FOLDER

writes docstrings.npz to a folder, for the benchmarks' `--data`. A document has the docstrings of a
module, its classes and its functions. The packages are in Python's standard library and in
site-packages. The packages are not imported. Documents that occur in several packages, such as
copied dependencies, are left out.
"""

import argparse
import ast
import re
import sysconfig
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

# A word has at least two letters, digits or underscores, as in scikit-learn's vectorizers.
WORD = re.compile(r"\w\w+")
# Smallest number of words in a document, and smallest number of documents in a package.
LEAST_WORDS = 10
LEAST_DOCUMENTS = 3
SEED = 0

Documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _document(path: Path) -> list[str]:
    """Return the words of a module's docstrings, in lower case."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes in the sources of other packages cause warnings.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, Documented))
    found = (ast.get_docstring(node, clean=False) or "" for node in nodes)
    return WORD.findall(" ".join(found).lower())


def _packages() -> Iterator[Path]:
    """Yield each folder of the standard library and of site-packages."""
    paths = sysconfig.get_paths()
    for root in sorted({Path(paths[name]) for name in ("stdlib", "purelib", "platlib")}):
        for folder in sorted(root.iterdir()):
            if folder.is_dir() and folder.name not in ("site-packages", "dist-packages"):
                yield folder


def read_documents() -> dict[str, list[str]]:
    """Return the documents by package, for packages with enough documents."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for folder in _packages():
        for path in sorted(folder.rglob("*.py")):
            words = _document(path)
            if len(words) >= LEAST_WORDS:
                found[folder.name][" ".join(words)] = None
    owners = Counter(text for texts in found.values() for text in texts)
    own = {name: [t for t in texts if owners[t] == 1] for name, texts in sorted(found.items())}
    return {name: texts for name, texts in own.items() if len(texts) >= LEAST_DOCUMENTS}


def arrays_of(packages: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """Return the set as arrays of word counts; a third of the rows is for testing."""
    texts = [text for own in packages.values() for text in own]
    labels = np.repeat(np.arange(len(packages)), list(map(len, packages.values())))
    counter = CountVectorizer(token_pattern=WORD.pattern, dtype=np.float32)
    X = counter.fit_transform(texts)
    X.sort_indices()
    order, n_test = np.random.default_rng(SEED).permutation(len(texts)), len(texts) // 3
    arrays = {"words": counter.get_feature_names_out().astype(str)}
    arrays["packages"] = np.array(list(packages))
    for part, rows in (("train", order[n_test:]), ("test", order[:n_test])):
        of_part = X[rows]
        arrays |= {f"y_{part}": labels[rows], f"X_{part}_shape": np.array(of_part.shape)}
        for name in ("data", "indices", "indptr"):
            arrays[f"X_{part}_{name}"] = getattr(of_part, name)
    return arrays


def main() -> None:
    """Write the data set of all installed packages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.docstrings")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    packages = read_documents()
    arrays = arrays_of(packages)
    np.savez_compressed(folder / "docstrings.npz", **arrays)
    n = sum(map(len, packages.values()))
    print(f"{len(packages)} packages, {n} documents, {len(arrays['words'])} words")


if __name__ == "__main__":
    main()
