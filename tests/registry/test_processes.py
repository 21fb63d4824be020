"""Several processes on one database, and a process killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys

from dragoman.registry import connect

WORKER = """
import asyncio, json, sys
from dragoman.core.schema import Schema
from dragoman.registry import connect

def text(name):
    return json.dumps({"type": "record", "name": name, "fields": [{"name": "id", "type": "long"}]})

async def main(url, me):
    registry = connect(url)
    await registry.contracts()
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(20):
        for contract, name in ((f"shared-{turn}", f"Shared{turn}"), (f"own-{me}-{turn}", f"Own{me}x{turn}")):
            made = await registry.register(contract, Schema("AVRO", text(name)))
            print(json.dumps([contract, made.version, made.schema.id, name]), flush=True)
    await registry.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def start_worker(url: str, me: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, url, str(me)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def start_together(workers: list[subprocess.Popen[str]]) -> None:
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()


def test_processes_that_register_at_once_share_ids_and_versions(store: str) -> None:
    workers = [start_worker(store, me) for me in range(3)]
    start_together(workers)
    made = []
    for worker in workers:
        output, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        made += [json.loads(line) for line in output.splitlines()]
    assert {version for _, version, _, _ in made} == {1}
    ids = {(id, name) for _, _, id, name in made}
    assert len(ids) == len({id for id, _ in ids}) == len({name for _, name in ids}) == 20 + 3 * 20
    assert {id for id, _ in ids} == set(range(1, 81))


async def test_what_a_killed_process_said_was_registered_is_there(store: str) -> None:
    worker = start_worker(store, 0)
    start_together([worker])
    assert worker.stdout is not None
    said = [json.loads(worker.stdout.readline()) for _ in range(7)]
    worker.kill()
    rest, _ = worker.communicate(timeout=60)
    said += [json.loads(line) for line in rest.splitlines() if line.endswith("]")]
    registry = connect(store)
    for contract, version, id, name in said:
        found = await registry.version(contract, version)
        assert found.schema.id == id
        assert json.loads(found.schema.text)["name"] == name
    ids = [(await registry.version(name)).schema.id for name in await registry.contracts()]
    assert sorted(ids) == sorted(set(ids))
    await registry.close()
