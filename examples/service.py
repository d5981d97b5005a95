"""A service that predicts while it learns, and survives being killed.

    pip install ".[service]"
    SERVICE_TOKEN=secret python examples/service.py --features a b --labels yes no \
        --state state --redis redis://127.0.0.1:6379

`POST /predict` with `{"x": {"a": 0.1}}` returns probabilities. `POST /learn` with
`{"samples": [{"x": {"a": 0.1}, "y": "yes"}]}` and the header `Authorization: Bearer secret`
appends samples to a Redis stream. `GET /metrics` returns metrics for Prometheus.

A thread reads the stream through a consumer group and learns the samples. The thread saves the
model with the position in the stream every `--save-samples` samples or `--save-seconds` seconds.
Then the thread acknowledges the saved samples. If the process is killed, the next process loads the
file and learns the samples after the saved position. So no sample is lost or learned twice, as long
as Redis keeps the stream.

The service listens on loopback by default, accepts only declared features and labels, and
unpickles nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import hmac
import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import redis
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse

from river_mondrian import MondrianForestClassifier, load, save

# Largest numbers of bytes and of samples in a request, and largest absolute value of a feature.
MOST_BYTES = 1 << 16
MOST_SAMPLES = 500
LARGEST = 3.4e38

STREAM, GROUP, CONSUMER = "samples", "model", "model"
READ = 256


class Refused(Exception):
    """Error for a refused request, with the HTTP status and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Schema:
    """The declared features, which are numbers, and the declared labels."""

    def __init__(self, features: list[str], labels: list[str]) -> None:
        self.features, self.labels = frozenset(features), frozenset(labels)

    def values(self, x: Any) -> dict[str, float]:
        """Check a sample, and return its values without missing values (null)."""
        if not isinstance(x, dict):
            raise Refused(422, f"x must be an object from feature to number, got {x!r:.80}")
        found = {}
        for name, value in x.items():
            if name not in self.features:
                raise Refused(422, f"feature {name!r:.80} is not declared")
            if value is None:
                continue
            if type(value) not in (int, float):
                raise Refused(422, f"feature {name!r} must be a number, got {value!r:.80}")
            if not abs(value) <= LARGEST:
                raise Refused(422, f"feature {name!r} is too large or not finite: {value!r:.80}")
            found[name] = float(value)
        return found

    def sample(self, given: Any) -> tuple[dict[str, float], str]:
        """Check and return a sample and the sample's label."""
        if not isinstance(given, dict) or given.keys() != {"x", "y"}:
            raise Refused(422, f"a sample must be an object with x and y, got {given!r:.80}")
        y = given["y"]
        if not isinstance(y, str) or y not in self.labels:
            raise Refused(422, f"label {y!r:.80} is not declared")
        return self.values(given["x"]), y


def parsed(content: bytes) -> Any:
    """Return parsed JSON, and refuse NaN and infinities, which JSON does not have."""

    def refuse(text: str) -> None:
        raise Refused(422, f"{text} is no number of JSON")

    try:
        return json.loads(content, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"the body is not JSON: {error}"[:200]) from None


def order(entry: str) -> tuple[int, int]:
    """Return the id of a stream's entry as a tuple, so that ids can be compared."""
    first, _, second = entry.partition("-")
    return int(first), int(second)


class Learner(threading.Thread):
    """A thread that learns a stream in order, and saves the model and the position."""

    def __init__(self, schema: Schema, arguments: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        self.schema = schema
        self.path = Path(arguments.state) / "model"
        self.save_samples, self.save_seconds = arguments.save_samples, arguments.save_seconds
        self.broker = redis.Redis.from_url(arguments.redis, decode_responses=True)
        self.position, self.refused = "0-0", 0
        if self.path.exists():
            self.model, extra = load(self.path, with_extra=True)
            self.position, self.refused = extra["position"], extra["refused"]
        else:
            self.model = MondrianForestClassifier(arguments.trees, seed=1)
        self.saved_at, self.unsaved = time.monotonic(), 0
        # Ids of the entries that are learned but not acknowledged.
        self.learned: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Learn until an error, and then print and store the error."""
        try:
            self._join_group()
            # First read the entries that were delivered before the process was killed.
            last = "0"
            while last != ">":
                entries = self._read(last)
                last = entries[-1][0] if entries else ">"
                self._learn(entries)
            while True:
                self._learn(self._read(">"))
                self._save_where_due()
        except BaseException as error:
            self.error = error
            print(f"learning has ended: {error!r}", flush=True)

    def _join_group(self) -> None:
        try:
            self.broker.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def _read(self, after: str) -> list[tuple[str, dict[str, str] | None]]:
        wait = max(1, int(1000 * min(1.0, self.save_seconds)))
        found = self.broker.xreadgroup(
            GROUP, CONSUMER, {STREAM: after}, READ, wait if after == ">" else None
        )
        return found[0][1] if found else []

    def _learn(self, entries: list[tuple[str, dict[str, str] | None]]) -> None:
        for entry, fields in entries:
            # Entries up to the saved position have been learned, and need only an acknowledgement.
            if order(entry) > order(self.position):
                try:
                    x, y = self.schema.sample(parsed((fields or {}).get("sample", "").encode()))
                except Refused:
                    # Other programs may write invalid samples to the stream.
                    self.refused += 1
                else:
                    self.model.learn_one(x, y)
                self.position = entry
                self.unsaved += 1
            self.learned.append(entry)
            self._save_where_due()

    def _save_where_due(self) -> None:
        late = time.monotonic() - self.saved_at >= self.save_seconds
        if self.unsaved >= self.save_samples or (late and self.learned):
            extra = {"position": self.position, "refused": self.refused}
            save(self.model, self.path, extra=extra)
            self.broker.xack(STREAM, GROUP, *self.learned)
            self.learned, self.unsaved, self.saved_at = [], 0, time.monotonic()

    def append(self, samples: list[Any]) -> list[str]:
        """Append checked samples to the stream, and return the ids of their entries."""
        with self.broker.pipeline(transaction=True) as pipeline:
            for one in samples:
                pipeline.xadd(STREAM, {"sample": json.dumps(one)})
            return list(pipeline.execute())


async def body_of(request: Request) -> Any:
    """Return the parsed body of a request, and refuse more than `MOST_BYTES` bytes."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BYTES:
            raise Refused(413, f"a request may have at most {MOST_BYTES} bytes")
    return parsed(bytes(content))


def make_app(schema: Schema, learner: Learner, token: str) -> FastAPI:
    """Return the web application that predicts, appends samples and reports metrics."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    counts = {"predictions": 0, "refused": 0, "appended": 0}
    expected = f"Bearer {token}".encode()

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        counts["refused"] += 1
        return JSONResponse({"detail": error.why}, error.status)

    @app.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        given = await body_of(request)
        if not isinstance(given, dict) or given.keys() != {"x"}:
            raise Refused(422, "the body must be an object with x")
        x = schema.values(given["x"])
        found = await run_in_threadpool(learner.model.predict_proba_one, x)
        counts["predictions"] += 1
        return JSONResponse({"probabilities": found})

    @app.post("/learn")
    async def learn(request: Request) -> JSONResponse:
        header = request.headers.get("authorization", "").encode()
        if not token or not hmac.compare_digest(header, expected):
            raise Refused(401, "learning requires a token")
        given = await body_of(request)
        samples = given.get("samples") if isinstance(given, dict) else None
        if not isinstance(samples, list) or not 0 < len(samples) <= MOST_SAMPLES:
            raise Refused(422, f"samples must be a list of 1 to {MOST_SAMPLES} samples")
        for one in samples:
            schema.sample(one)
        entries = await run_in_threadpool(learner.append, samples)
        counts["appended"] += len(samples)
        return JSONResponse({"entries": entries}, 202)

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        found = {
            "learned_samples": learner.model.n_samples,
            "refused_entries": learner.refused,
            "unsaved_samples": learner.unsaved,
            "seconds_since_save": round(time.monotonic() - learner.saved_at, 3),
            "learning": int(learner.is_alive()),
            **{f"{name}_total": n for name, n in counts.items()},
        }
        lines = [f"mondrian_{name} {value}" for name, value in found.items()]
        return PlainTextResponse("\n".join(lines) + "\n", 200 if learner.error is None else 500)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", nargs="+", required=True, help="names of numeric features")
    parser.add_argument("--labels", nargs="+", required=True)
    parser.add_argument("--state", required=True, help="folder of the saved model")
    parser.add_argument("--redis", required=True, help="URL of Redis")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (loopback)")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--save-samples", type=int, default=1000, help="samples between saves")
    parser.add_argument("--save-seconds", type=float, default=5.0, help="seconds between saves")
    arguments = parser.parse_args()
    if arguments.save_samples < 1 or not 0.0 < arguments.save_seconds < math.inf:
        parser.error("--save-samples and --save-seconds must be above 0")
    Path(arguments.state).mkdir(parents=True, exist_ok=True)
    # The lock prevents two services with the same state, which would each learn only some samples.
    with open(Path(arguments.state) / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"another service uses {arguments.state}") from None
        MondrianForestClassifier.warmup()
        schema = Schema(arguments.features, arguments.labels)
        learner = Learner(schema, arguments)
        app = make_app(schema, learner, os.environ.get("SERVICE_TOKEN", ""))
        learner.start()
        uvicorn.run(app, host=arguments.host, port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
