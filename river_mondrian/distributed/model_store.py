"""A store of models by key, as Python objects, packed in memory, or in a folder."""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping, ValuesView
from pathlib import Path
from typing import Any

from river import base

from ..arguments import plain_key
from ..files.store import load, save

# Bytes that the store needs for each model, in addition to the model itself.
ENTRY_BYTES = 400


def text_of(key: Any) -> str:
    """Return a text that identifies a key."""
    if type(key) is tuple:
        return f"({', '.join(map(text_of, key))})"
    return f"{type(key).__name__} {key!r}"


def digest_of(key: Hashable) -> str:
    """Return a 128-bit hash of a key in hexadecimal, the same in all processes."""
    text = text_of(plain_key(key, "a key")).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def kind_of(model: Any) -> str:
    """Return the name of a model's class, with the class names of its inner models.

    Other arguments do not affect the result. The steps of a pipeline are inner models, too.
    """
    inner_models = []
    for name in inspect.signature(type(model).__init__).parameters:
        argument = getattr(model, name, None)
        several = argument.values() if isinstance(argument, Mapping) else argument
        several = several if isinstance(several, (ValuesView, list, tuple)) else [argument]
        inner_models += [value for value in several if isinstance(value, base.Estimator)]
    inner = f"({', '.join(map(kind_of, inner_models))})" if inner_models else ""
    return type(model).__name__ + inner


class _Ready:
    """An unpacked model, with its size and its number of changes."""

    __slots__ = ("is_changed", "model", "n_changes", "nbytes")

    def __init__(self, model: Any, is_changed: bool) -> None:
        self.model, self.is_changed = model, is_changed
        self.n_changes = 0
        self.nbytes = ENTRY_BYTES + model._raw_memory_usage


class ModelStore:
    """Store of models by key. The least recently used models are packed, then moved to a folder.

    Parameters
    ----------
    model
        A model with the classes of all models in the store.
    n_ready
        Largest number of ready models. Other models are pickled and compressed in memory.
    max_bytes
        Largest size of all models in memory, in bytes; None sets no limit.
    folder
        Folder for models that exceed `max_bytes`. Models that are already in the folder are used;
        models with other classes raise an error.
    trusted
        Whether models are pickled in the folder, instead of saved by `save`.

    """

    def __init__(
        self, model: Any, n_ready: int, max_bytes: int | None, folder: str | None, trusted: bool
    ) -> None:
        self._kind = kind_of(model)
        self._n_ready, self._max_bytes = n_ready, max_bytes
        self._folder = None if folder is None else Path(folder)
        self._trusted = trusted
        self._ready: OrderedDict[Hashable, _Ready] = OrderedDict()
        # For each key: the packed model, and whether the model has changed since it was saved.
        self._packed: OrderedDict[Hashable, tuple[bytes, bool]] = OrderedDict()
        self.nbytes = 0
        if self._folder is not None:
            # All models in a folder have the same classes, so loading one model checks the folder.
            any(self._load(path) for path in self._folder.glob("[0-9a-f][0-9a-f]/[0-9a-f]*"))

    def __len__(self) -> int:
        return len(self._ready) + len(self._packed)

    @property
    def counts(self) -> dict[str, int]:
        """Number of ready models and number of packed models."""
        return {"ready": len(self._ready), "packed": len(self._packed)}

    # Reading and adding models.

    def get(self, key: Hashable) -> Any:
        """Return a key's model, unpacked or loaded if necessary; None if the key has no model."""
        ready = self._ready.get(key)
        if ready is not None:
            self._ready.move_to_end(key)
            return ready.model
        content, is_changed = self._packed.get(key, (None, False))
        model = self._read(key) if content is None else pickle.loads(zlib.decompress(content))
        if model is not None:
            self.put(key, model, is_changed)
        return model

    def put(self, key: Hashable, model: Any, is_changed: bool = True) -> None:
        """Add the model of a key. If `is_changed` is true, the model must be saved later."""
        ready = _Ready(model, is_changed)
        packed = self._packed.get(key)
        self._ready[key] = ready
        self._packed.pop(key, None)
        self.nbytes += ready.nbytes - (0 if packed is None else ENTRY_BYTES + len(packed[0]))
        self.shrink()

    def changed(self, key: Hashable) -> None:
        """Mark a key's model as changed by a sample, and update the model's size at intervals."""
        ready = self._ready[key]
        ready.is_changed = True
        ready.n_changes += 1
        n = ready.n_changes
        # Measuring a model's size takes longer than learning, so the size is measured only at
        # intervals.
        if n & (n - 1) == 0 or n % 256 == 0:
            nbytes = ENTRY_BYTES + ready.model._raw_memory_usage
            self.nbytes += nbytes - ready.nbytes
            ready.nbytes = nbytes
            self.shrink()

    # Making room.

    def shrink(self) -> None:
        """Pack models, or move them to the folder, until limits hold or one model is left."""
        while len(self._ready) > self._n_ready:
            self._pack()
        limit = self._max_bytes
        while limit is not None and self.nbytes > limit:
            if self._packed:
                key, (content, is_changed) = next(iter(self._packed.items()))
                if is_changed:
                    self._write(key, pickle.loads(zlib.decompress(content)))
                del self._packed[key]
                self.nbytes -= ENTRY_BYTES + len(content)
            elif len(self._ready) > 1:
                self._pack()
            else:
                return

    def _pack(self) -> None:
        key, ready = next(iter(self._ready.items()))
        # The pickle is safe, because only this process writes and reads it.
        content = zlib.compress(pickle.dumps(ready.model), 1)
        self._packed[key] = content, ready.is_changed
        del self._ready[key]
        self.nbytes += ENTRY_BYTES + len(content) - ready.nbytes

    # The folder.

    def path_of(self, key: Hashable) -> Path:
        """Return the path of a key's file."""
        assert self._folder is not None
        digest = digest_of(key)
        return self._folder / digest[:2] / digest[2:]

    def _write(self, key: Hashable, model: Any) -> None:
        path = self.path_of(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._trusted:
            save(model, path, extra={"key": key})
            return
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            temporary.write_bytes(pickle.dumps((key, model)))
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _load(self, path: Path) -> tuple[Any, Any]:
        """Return the key and the model in a file."""
        if self._trusted:
            key, model = pickle.loads(path.read_bytes())
        else:
            model, extra = load(path, with_extra=True)
            key = extra["key"]
        if kind_of(model) != self._kind:
            raise ValueError(f"{path} has a {kind_of(model)}, but the prototype is a {self._kind}")
        return key, model

    def _read(self, key: Hashable) -> Any:
        if self._folder is None or not self.path_of(key).exists():
            return None
        path = self.path_of(key)
        known, model = self._load(path)
        if known != key:
            raise ValueError(f"{path} has the model of {known!r} instead of {key!r}")
        return model

    def flush(self) -> int:
        """Save all models that have changed since they were saved; return their number."""
        n = 0
        for key, ready in self._ready.items():
            if ready.is_changed:
                self._write(key, ready.model)
                ready.is_changed = False
                n += 1
        for key, (content, is_changed) in self._packed.items():
            if is_changed:
                self._write(key, pickle.loads(zlib.decompress(content)))
                self._packed[key] = content, False
                n += 1
        return n
