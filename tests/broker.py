"""A Redis server on a local port, and the service of the examples."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOKEN = "a token"


def missing():
    """Return the reason why the service cannot run here, or "" if there is none."""
    for name in ("fastapi", "uvicorn", "redis", "httpx"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed: pip install river-mondrian[service]"
    if shutil.which("redis-server") is None:
        return "there is no redis-server: apt-get install redis-server"
    return ""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until(is_so, seconds=300.0):
    """Wait up to `seconds` for a condition to hold; return the last value of the condition."""
    ends = time.monotonic() + seconds
    while True:
        found = is_so()
        if found or time.monotonic() > ends:
            return found
        time.sleep(0.02)


@contextmanager
def broker(folder):
    """Run a Redis server; yield its URL and a client."""
    import redis

    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, "--dir", str(folder)], **quiet)
    url = f"redis://127.0.0.1:{port}"
    client = redis.Redis.from_url(url, decode_responses=True)

    def answers():
        try:
            return client.ping()
        except redis.ConnectionError:
            return False

    try:
        assert wait_until(answers), "redis-server does not answer"
        yield url, client
    finally:
        process.kill()
        process.wait()


class Service:
    """The service in a separate process, which can be killed and restarted."""

    def __init__(self, url, state, features, labels, *more):
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, str(ROOT / "examples" / "service.py")]
        self.command += ["--redis", url, "--state", str(state), "--port", str(self.port)]
        self.command += ["--features", *features, "--labels", *labels, *more]

    def start(self):
        environment = os.environ | {"SERVICE_TOKEN": TOKEN}
        self.process = subprocess.Popen(self.command, env=environment)

    def metrics(self):
        """Return the metrics of the service, or {} while the service does not answer."""
        import httpx

        try:
            found = httpx.get(f"{self.address}/metrics", timeout=60.0)
        except httpx.TransportError:
            return {}
        return {line.split()[0]: float(line.split()[1]) for line in found.text.splitlines()}

    def wait(self):
        assert wait_until(self.metrics), "the service does not answer"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
