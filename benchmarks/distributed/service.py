"""Latencies of the example service during learning."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ..data import DataFolder
from ..report import Report

FEATURES = [f"f{j}" for j in range(10)]
LABELS = ["no", "yes"]
PREDICTIONS, LEARNED = 1000, 500
CONNECTIONS = 16
LEARNED_AT_ONCE = 25


def _broker() -> Any:
    """Return the module that starts brokers and services."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    import broker

    return broker


def _sample(rng: random.Random) -> dict[str, Any]:
    x = {name: rng.random() for name in FEATURES}
    return {"x": x, "y": LABELS[x["f0"] + x["f1"] > 1.0]}


def _request(path: str, body: Any, token: str) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


async def _predict(port: int, i: int, rate: float, ends: float, token: str) -> list[float]:
    """Send requests at their scheduled times, and return the times from then to the answers."""
    rng, found = random.Random(i), []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter() + rng.random() / rate
    while due < ends:
        wait = due - time.perf_counter()
        if wait > 0.0:
            await asyncio.sleep(wait)
        writer.write(_request("/predict", {"x": _sample(rng)["x"]}, token))
        if await _answer(reader) != 200:
            raise RuntimeError("a prediction was refused")
        # A latency starts at the scheduled time, so it includes delays by earlier requests.
        found.append(time.perf_counter() - due)
        due += 1.0 / rate
    writer.close()
    return found


async def _learn(port: int, rate: float, ends: float, token: str) -> int:
    rng, sent = random.Random(-1), 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter()
    while due < ends:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        part = [_sample(rng) for _ in range(LEARNED_AT_ONCE)]
        writer.write(_request("/learn", {"samples": part}, token))
        if await _answer(reader) != 202:
            raise RuntimeError("samples were refused")
        sent += len(part)
        due += LEARNED_AT_ONCE / rate
    writer.close()
    return sent


async def _load(port: int, seconds: float, token: str) -> tuple[list[float], int]:
    ends = time.perf_counter() + seconds
    rate = PREDICTIONS / CONNECTIONS
    clients = [_predict(port, i, rate, ends, token) for i in range(CONNECTIONS)]
    *times, sent = await asyncio.gather(*clients, _learn(port, LEARNED, ends, token))
    return [one for part in times for one in part], sent


def _latencies(broker: Any, url: str, folder: Path, seconds: float) -> list[Any]:
    cores = sorted(os.sched_getaffinity(0))
    service = broker.Service(url, folder, FEATURES, LABELS, cores={cores[0]})
    service.start()
    service.wait()
    os.sched_setaffinity(0, {cores[-1]})
    asyncio.run(_load(service.port, 2.0, broker.TOKEN))
    times, sent = asyncio.run(_load(service.port, seconds, broker.TOKEN))
    with open(f"/proc/{service.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    os.sched_setaffinity(0, cores)
    service.kill()
    times.sort()
    at = [1e3 * times[int(share * (len(times) - 1))] for share in (0.5, 0.9, 0.99, 1.0)]
    # A connection sends its next request after an answer, so the service is never flooded.
    rate = len(times) / seconds
    return [f"{rate:.0f}", f"{sent / seconds:.0f}", *(f"{one:.1f}" for one in at), f"{used:.0f}"]


def service(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure latencies of the example service during learning, on one core.

    Latencies of predictions during learning. The service has one core; the clients and the
    Redis server share the other core. Over {CONNECTIONS} connections, {PREDICTIONS:,} samples
    per second of {n_features} features are sent to be predicted. Another connection sends
    {LEARNED} samples per second to be learned, {LEARNED_AT_ONCE} at a time, for {seconds} s.
    The forest has 10 trees. A latency is the time from the scheduled time of a request to its
    answer.
    """
    broker = _broker()
    if broker.missing():
        report.note(f"skipped: {broker.missing()}")
        return
    seconds = 4 if quick else 30
    with tempfile.TemporaryDirectory() as folder, broker.broker(folder) as (url, _):
        latencies = _latencies(broker, url, Path(folder), seconds)
    report.about(service, n_features=len(FEATURES), seconds=seconds)
    headers = ["predictions/s", "learned/s", "ms, median", "90 %", "99 %", "longest"]
    report.table([*headers, "s of processor time since its start"], [latencies])
