"""Maps as they are until they are records: by addresses."""

from __future__ import annotations

from typing import Any

from ..compiling.kernels import exact_separate
from ..maps.record import MapRecord, Outputs, Sample
from ..records import Float64s, Int32s, Memory


@exact_separate
def transform(feature_map: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample."""
    if feature_map.is_dense:
        return feature_map.transform(feature_map, sample, Outputs(outputs.values))
    return feature_map.transform(feature_map, sample, Outputs(outputs.cells))


def outputs_of(out: Any) -> Memory[Outputs]:
    """Return the record of an array of outputs."""
    memory = Memory(Outputs)
    refer(memory, out)
    return memory


def refer(memory: Memory[Outputs], out: Any) -> None:
    """Let a record refer to an array of outputs."""
    if out.dtype == "int32":
        memory[0].cells = Int32s.of(out)
    else:
        memory[0].values = Float64s.of(out)
