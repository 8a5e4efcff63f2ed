"""Services while something goes wrong: late tasks, odd peers, a hub that stands still."""

from __future__ import annotations

import asyncio
import threading

import pytest
from conftest import LIMIT, code


MESSAGE = ("float32", 4)

pytestmark = pytest.mark.usefixtures("ends_in_time")


def test_a_request_that_is_given_up_before_its_task_begins_frees_the_handler(hub):
    async def main():
        async def handler(request, reply):
            return {"meta": request.json}

        async with await hub.serve_async("late-task", handler, request=MESSAGE) as service:
            with hub.connect_service("late-task") as client:

                def give_up():
                    assert code(lambda: client.request(meta=1, timeout=0.2)) == "TIMEOUT"

                # The event loop stands still meanwhile.
                late = threading.Thread(target=give_up)
                late.start()
                late.join(LIMIT)
                with await client.request_async(meta=2, timeout=LIMIT / 4) as reply:
                    assert reply.json == 2
            assert service.running == 0

    asyncio.run(main())


def test_a_deadline_in_a_hundred_years_ends_no_worker(hub, node):
    with hub.serve("far-deadline", lambda request, reply: None, request=MESSAGE):
        peer = node("service", "client", "far-deadline")
        assert peer.said() == "ready"
        peer.tell({"values": [1, 2, 3, 4], "timeoutMs": 100 * 365 * 86400 * 1000})
        assert peer.said() == {"values": [], "meta": None}
        with hub.connect_service("far-deadline") as client:
            client.request(meta=1, timeout=LIMIT / 4).release()


def _running(service):
    return getattr(service, "running", 0)
