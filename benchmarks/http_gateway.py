"""A request that passes the HTTP gateway, against the same request straight to its host.

The gateway is a process of its own, as `counterfoil-gateway serve` starts it; so is the host, which answers at once.
Each round sends requests over a kept connection and takes the median of both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.figures import Figure, sized
from benchmarks.stand import Stand
from console.local import servers
from console.local.processes import wait_until

REQUESTS = sized(400, tiny=5)
ADDED_MS = 5.0
HOST = """
import sys
from aiohttp import web
async def answer(request):
    return web.json_response({"number": 7})
application = web.Application()
application.router.add_route("*", "/{rest:.*}", answer)
web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""


def measure(stand: Stand, rounds: int) -> list[Figure]:
    keys = stand.founded("http_gateway")["keys"]
    with stand.web("http_gateway") as port, tempfile.TemporaryDirectory() as folder:
        host, front = servers.free_port(), servers.free_port()
        config = _settings(Path(folder), console=port, host=host, front=front)
        told = {"COUNTERFOIL_AGENT_KEY": keys["agent"], "COUNTERFOIL_EXECUTOR_KEY": keys["exec"]}
        program = [sys.executable, "-m", "counterfoil.gateway"]
        words = ["token", "reader", "--config", str(config)]
        token = subprocess.check_output([*program, *words], env=os.environ | told, text=True).strip()
        with (
            _running([sys.executable, "-c", HOST, str(host)], told, host),
            _running([*program, "serve", "--config", str(config)], told, front),
            httpx.Client(headers={"Authorization": f"Bearer {token}"}) as client,
        ):
            gated = f"http://127.0.0.1:{front}/api/things/7"
            direct = f"http://127.0.0.1:{host}/things/7"
            pairs = [(_median_ms(client, gated), _median_ms(client, direct)) for _ in range(rounds + 1)][1:]
    extra = tuple(ours - peer for ours, peer in pairs)
    name = "HTTP gateway, added to a read: 5 ms"
    return [Figure(name=name, unit="ms", ours=extra, peer=(ADDED_MS,) * rounds, aim=1, most=True)]


def _median_ms(client: httpx.Client, url: str) -> float:
    spent = []
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        client.get(url).raise_for_status()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent) * 1000


@contextmanager
def _running(words: list[str], told: dict[str, str], port: int) -> Iterator[None]:
    child = subprocess.Popen(words, env=os.environ | told, stderr=subprocess.DEVNULL)
    try:
        if not wait_until(lambda: _answers(port), within_s=60):
            raise SystemExit(f"benchmarks: {words[1:3]} did not start")
        yield
    finally:
        child.terminate()
        child.wait(60)


def _answers(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/", timeout=5)
    except httpx.TransportError:
        return False
    return True


def _settings(folder: Path, *, console: int, host: int, front: int) -> Path:
    rules = folder / "rules.toml"
    rules.write_text('[[rule]]\nname = "api.read"\nmethod = ["GET"]\npath = "/{+rest}"\neffect = "read"\n')
    config = folder / "gateway.toml"
    config.write_text(
        "\n".join(
            [
                f'[console]\nurl = "http://127.0.0.1:{console}"\nissuer = "http://localhost:8000"',
                f'[gateway]\nlisten = "127.0.0.1:{front}"\nstate = "{folder}/state"\nagents_run_as = "elsewhere"',
                '[agents.reader]\ngoal = "Read."',
                f'[hosts.api]\nreader = "rules"\nrules = {json.dumps(str(rules))}\nurl = "http://127.0.0.1:{host}"',
            ]
        )
    )
    return config
