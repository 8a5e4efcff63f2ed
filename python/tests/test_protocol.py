"""Packets that break the protocol get the documented replies, and the hub goes on."""

from __future__ import annotations

import json
import socket as sockets

import pytest
from conftest import LIMIT

PACKETS = {
    "not JSON": (b"\x00garbage", 0, "INVALID_MESSAGE", True),
    "an unknown operation": (b'{"v":1,"id":7,"op":"explode"}', 7, "INVALID_MESSAGE", True),
    "another version": (b'{"v":2,"id":8,"op":"status"}', 8, "PROTOCOL_MISMATCH", True),
    "too large": (b'{"v":1,"id":9}'.ljust(65537), None, "MESSAGE_TOO_LARGE", True),
    "an unknown name": (
        b'{"v":1,"id":10,"op":"inspect","name":"nobody"}', 10, "NOT_FOUND", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PACKETS)
def test_a_packet_that_breaks_the_protocol_gets_the_documented_reply(socket, hub, what):
    packet, number, code, ends = PACKETS[what]
    before = hub.status()["instance"]
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET) as session:
        session.settimeout(LIMIT)
        session.connect(socket)
        hello = {"v": 1, "id": 1, "op": "hello", "client": {"version": "0", "program": "raw"}}
        session.send(json.dumps(hello).encode())
        assert json.loads(session.recv(65536))["ok"]
        session.send(packet)
        reply = json.loads(session.recv(65536))
        assert reply["error"]["code"] == code
        assert number is None or reply["id"] == number
        if not ends:
            session.send(b'{"v":1,"id":2,"op":"bye"}')
            assert json.loads(session.recv(65536))["id"] == 2
        assert session.recv(65536) == b"", "the hub hangs up"
    assert hub.status()["instance"] == before
