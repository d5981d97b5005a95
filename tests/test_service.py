"""Tests of the example service: refused requests, and kills without loss of samples."""

import json
import random

import broker
import pytest
from common import HANGS

from river_mondrian import MondrianForestClassifier, load

pytestmark = pytest.mark.skipif(bool(broker.missing()), reason=broker.missing() or "it can be run")

FEATURES, LABELS = ["a", "b"], ["no", "yes"]


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with broker.broker(tmp_path_factory.mktemp("redis")) as found:
        yield found


@pytest.fixture
def service(redis, tmp_path):
    url, client = redis
    client.flushall()
    limits = "--save-samples", "40", "--save-seconds", "1"
    made = broker.Service(url, tmp_path / "state", FEATURES, LABELS, *limits)
    made.start()
    try:
        made.wait()
        yield made
    finally:
        made.kill()


def samples(n, seed=0):
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        x = {"a": rng.random(), "b": rng.random()}
        if rng.random() < 0.1:
            x["b"] = None
        found.append({"x": x, "y": LABELS[x["a"] > 0.5]})
    return found


def learn(client, part):
    headers = {"Authorization": f"Bearer {broker.TOKEN}"}
    return client.post("/learn", json={"samples": part}, headers=headers)


BAD = {
    "a feature": ({"x": {"a": 1.0, "c": 1.0}}, "feature 'c' is not declared"),
    "a string": ({"x": {"a": "1"}}, "feature 'a' must be a number, got '1'"),
    "a truth value": ({"x": {"b": True}}, "feature 'b' must be a number, got True"),
    "too large": ({"x": {"a": 1e39}}, "feature 'a' is too large"),
    "a long integer": ({"x": {"a": 10**400}}, "feature 'a' is too large"),
    "a list": ({"x": [1.0]}, "x must be an object"),
    "no x": ({"z": {}}, "the body must be an object with x"),
    "NaN": ('{"x": {"a": NaN}}', "NaN is no number of JSON"),
    "a cut": ('{"x": {"a": 1.0', "the body is not JSON"),
    "nested": ("[" * 30000, "the body is not JSON"),
}


def test_what_is_refused(service):
    import httpx

    with httpx.Client(base_url=service.address, timeout=HANGS) as client:
        for what, (body, why) in BAD.items():
            content = body if isinstance(body, str) else json.dumps(body)
            answer = client.post("/predict", content=content)
            assert (answer.status_code, why in answer.text) == (422, True), (what, answer.text)
            if isinstance(body, dict) and "x" in body:
                answer = learn(client, [*samples(3), body | {"y": "yes"}])
                assert (answer.status_code, why in answer.text) == (422, True), (what, answer.text)
        answer = learn(client, [{"x": {"a": 1.0}, "y": "maybe"}])
        assert (answer.status_code, "label 'maybe' is not declared" in answer.text) == (422, True)
        assert client.post("/predict", content=b" " * 70_000).status_code == 413
        assert learn(client, samples(501)).status_code == 422
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            body = {"samples": samples(1)}
            assert client.post("/learn", json=body, headers=headers).status_code == 401
        for path in ("/docs", "/openapi.json"):
            assert client.get(path).status_code == 404
    found = service.metrics()
    assert (found["mondrian_learned_samples"], found["mondrian_appended_total"]) == (0, 0)
    assert found["mondrian_refused_total"] > 10


def test_another_one_of_the_same_state_is_refused(service, capfd):
    other = broker.Service("redis://127.0.0.1:1", service.command[5], FEATURES, LABELS)
    other.start()
    assert other.process.wait(HANGS) == 1
    assert "another service uses" in capfd.readouterr().err


def test_kills_under_load_lose_nothing(service, redis, tmp_path):
    """After any kill, the model has learned all samples of the stream once, in order."""
    import httpx

    _, broker_client = redis
    rng, sent = random.Random(1), []
    parts = [samples(10, seed) for seed in range(60)]
    kills = {15, 30, 31, 50}
    with httpx.Client(base_url=service.address, timeout=HANGS) as client:
        for i, part in enumerate(parts):
            if i in kills:
                broker.time.sleep(0.1 * rng.random())
                service.kill()
                service.start()
                service.wait()
            assert learn(client, part).status_code == 202
            sent += part
            answer = client.post("/predict", json={"x": part[0]["x"]})
            assert answer.status_code == 200
    # Samples that another program writes to the stream are checked, too.
    broker_client.xadd("samples", {"sample": '{"x": {"a": 1e300}, "y": "no"}'})
    broker_client.xadd("samples", {"other": "field"})
    n = len(sent)
    assert broker.wait_until(lambda: service.metrics().get("mondrian_learned_samples") == n)
    # Within a second, all samples are saved and acknowledged.
    assert broker.wait_until(lambda: broker_client.xpending("samples", "model")["pending"] == 0)
    assert service.metrics()["mondrian_refused_entries"] == 2
    expected = MondrianForestClassifier(10, seed=1)
    for one in sent:
        x = {name: value for name, value in one["x"].items() if value is not None}
        expected.learn_one(x, one["y"])
    service.kill()
    found, extra = load(tmp_path / "state" / "model", with_extra=True)
    assert found.n_samples == n
    assert extra["position"] == broker_client.xrevrange("samples", count=1)[0][0]
    for one in samples(50, 99):
        assert found.predict_proba_one(one["x"]) == expected.predict_proba_one(one["x"])
