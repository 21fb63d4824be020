"""Typed records of nine fields over MQTT 5: Dragoman, and paho-mqtt moving the same bytes.

One mosquitto that saves its database at intervals, quality of service 1, one process. Both acknowledge by
hand after handling, from a session that was there before the messages. Both publish in batches of 500 and
wait for the server's word on each (``confirm=received``: paho knows nothing more). There is no typed peer:
FastStream's MQTT broker stands on a client library of its own that is no dependency here.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from pathlib import Path

import paho.mqtt.client as paho
from bench_delivery import Order, order
from broker_race import BATCH, GROUP, Times, best, frame_of_one, show, until
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.services.mosquitto import Mosquitto

from dragoman import Client, endpoint
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel

PATIENCE = 60.0


async def ours(url: str, name: str, count: int) -> Times:
    handled = 0

    @endpoint(name, group=GROUP)
    async def on_order(order: Order) -> None:
        nonlocal handled
        handled += 1

    orders = [order(number) for number in range(count)]
    async with Client(url, "memory://", []) as client:
        await client.broker.create(Channel(name, 1))
        await (await client.broker.subscribe(Subscription((name,), GROUP))).close()
        producer = await client.producer(name, Order)
        started = time.perf_counter()
        for start in range(0, count, BATCH):
            await producer.publish_many(orders[start : start + BATCH])
        publish = time.perf_counter() - started
    started = time.perf_counter()
    async with Client(url, "memory://", [on_order]):
        await until(lambda: handled >= count)
    # Leaving the client acknowledges the last ones.
    return Times(publish, time.perf_counter() - started)


def session(port: int, name: str) -> paho.Client:
    """A client with a session that outlives its connections."""
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5, manual_ack=True
    )
    client.max_inflight_messages_set(BATCH)
    wanted = Properties(PacketTypes.CONNECT)
    wanted.SessionExpiryInterval = 600
    wanted.ReceiveMaximum = 1000
    ready = threading.Event()
    client.on_connect = lambda *_: ready.set()
    client.connect("127.0.0.1", port, clean_start=False, properties=wanted)
    client.loop_start()
    assert ready.wait(PATIENCE)
    return client


def end(client: paho.Client) -> None:
    client.disconnect()
    client.loop_stop()


async def bare(port: int, name: str, count: int, payload: bytes) -> Times:
    return await asyncio.to_thread(_bare, port, name, count, payload)


def _bare(port: int, name: str, count: int, payload: bytes) -> Times:
    reader = session(port, f"{name}-reader")
    subscribed = threading.Event()
    reader.on_subscribe = lambda *_: subscribed.set()
    reader.subscribe(name, 1)
    assert subscribed.wait(PATIENCE)
    end(reader)
    writer = session(port, f"{name}-writer")
    started = time.perf_counter()
    for _ in range(0, count, BATCH):
        for one in [writer.publish(name, payload, 1) for _ in range(BATCH)]:
            one.wait_for_publish(PATIENCE)
    publish = time.perf_counter() - started
    end(writer)
    handled, done = 0, threading.Event()

    def handle(client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
        nonlocal handled
        handled += 1
        client.ack(message.mid, message.qos)
        if handled >= count:
            done.set()

    started = time.perf_counter()
    reader = paho.Client(
        paho.CallbackAPIVersion.VERSION2, client_id=f"{name}-reader", protocol=paho.MQTTv5, manual_ack=True
    )
    reader.on_message = handle
    wanted = Properties(PacketTypes.CONNECT)
    wanted.SessionExpiryInterval = 600
    wanted.ReceiveMaximum = 1000
    reader.connect("127.0.0.1", port, clean_start=False, properties=wanted)
    reader.loop_start()
    assert done.wait(PATIENCE)
    end(reader)
    return Times(publish, time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    count, rounds = given.count, given.rounds
    numbers = iter(range(1_000_000))
    with tempfile.TemporaryDirectory() as folder:
        server = Mosquitto(Path(folder) / "mqtt", autosave_on_changes="false", autosave_interval="60")
        server.start()
        try:
            url, payload = f"{server.url}?confirm=received", frame_of_one()
            rows = [
                ("Dragoman, typed", count, best(rounds, lambda: ours(url, f"o{next(numbers)}", count))),
                (
                    "paho-mqtt, the same bytes",
                    count,
                    best(rounds, lambda: bare(server.port, f"b{next(numbers)}", count, payload)),
                ),
            ]
        finally:
            server.stop()
    show(rows)


if __name__ == "__main__":
    main()
