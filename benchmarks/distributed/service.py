"""Latencies of the example service during learning, and kills under load."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from river_mondrian import MondrianForestClassifier, load

from ..data import DataFolder
from ..report import Report, progress

FEATURES = [f"f{j}" for j in range(10)]
LABELS = ["no", "yes"]
PREDICTIONS, LEARNED = 1000, 500
SECONDS, QUICK_SECONDS = 30, 4
KILLS, QUICK_KILLS = 50, 2
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
    return [
        f"{rate:.0f}",
        f"{sent / seconds:.0f}",
        *(f"{one:.1f}" for one in at),
        f"{used:.0f}",
    ]


def _kills(broker: Any, url: str, client: Any, folder: Path, n_kills: int) -> list[Any]:
    import httpx

    client.flushall()
    limits = "--save-samples", "300", "--save-seconds", "2"
    service = broker.Service(url, folder, FEATURES, LABELS, *limits)
    rng, moments, n_refused = random.Random(1), random.Random(2), 0
    headers, accepted = {"Authorization": f"Bearer {broker.TOKEN}"}, []
    for kill in range(n_kills + 1):
        service.start()
        service.wait()
        wait = 1.5 * moments.random() + 0.05
        killer = threading.Timer(wait, service.kill)
        if kill < n_kills:
            killer.start()
        ends = time.monotonic() + wait + (0.0 if kill < n_kills else 1.0)
        with httpx.Client(base_url=service.address, timeout=30.0) as http:
            # A request may be in progress, so wait until the process has ended.
            while kill < n_kills or time.monotonic() < ends:
                part = [_sample(rng) for _ in range(LEARNED_AT_ONCE)]
                try:
                    answer = http.post("/learn", json={"samples": part}, headers=headers)
                    accepted += answer.json().get("entries", [])
                    n_refused += answer.status_code != 202
                    answer = http.post("/predict", json={"x": part[0]["x"]})
                    n_refused += answer.status_code != 200
                except httpx.TransportError:
                    break
        if kill < n_kills:
            killer.join()
        progress(f"kill {kill}")
    n = client.xlen("samples")
    learned = broker.wait_until(
        lambda: (
            service.metrics().get("mondrian_learned_samples") == n
            and client.xpending("samples", "model")["pending"] == 0
        )
    )
    service.kill()
    expected = MondrianForestClassifier(10, seed=1)
    for _, fields in client.xrange("samples"):
        one = json.loads(fields["sample"])
        expected.learn_one(one["x"], one["y"])
    found = load(folder / "model") if learned else None
    asked = [_sample(rng)["x"] for _ in range(200)]
    differ = sum(
        found is None or found.predict_proba_one(x) != expected.predict_proba_one(x) for x in asked
    )
    lost = len(set(accepted) - {entry for entry, _ in client.xrange("samples")})
    return [n_kills, len(accepted), n, lost, n_refused, differ]


def service(data: DataFolder, report: Report, quick: bool) -> bool:
    """Measure latencies during learning, on one core; kill the service under load.

    Latencies of predictions during learning, and kills under load. The service has one core;
    the clients and the Redis server share the other core. Over {CONNECTIONS} connections,
    {PREDICTIONS:,} samples per second of {n_features} features are sent to be predicted.
    Another connection sends {LEARNED} samples per second to be learned, {LEARNED_AT_ONCE} at a
    time, for {seconds} s. The forest has 10 trees. A latency is the time from the scheduled
    time of a request to its answer.
    """
    broker = _broker()
    if broker.missing():
        report.note(f"skipped: {broker.missing()}")
        return True
    seconds, n_kills = (QUICK_SECONDS, QUICK_KILLS) if quick else (SECONDS, KILLS)
    with tempfile.TemporaryDirectory() as folder, broker.broker(folder) as (url, client):
        latencies = _latencies(broker, url, Path(folder) / "latencies", seconds)
        killed = _kills(broker, url, client, Path(folder) / "kills", n_kills)
    report.about(service, n_features=len(FEATURES), seconds=seconds)
    report.table(
        [
            "predictions/s",
            "learned/s",
            "ms, median",
            "90 %",
            "99 %",
            "longest",
            "s of processor time since its start",
        ],
        [latencies],
    )
    report.note(
        "SIGKILL ends the service at random moments under load, and the service is started again. "
        "The model of the new process is then compared with a model that has learned all samples "
        "of the stream once, in order. The last column counts the differences among 200 "
        "predictions, bit for bit."
    )
    report.table(
        ["kills", "samples accepted", "in the stream", "lost", "refused", "different"],
        [killed],
    )
    *_, lost, _, differ = killed
    return lost == differ == 0
