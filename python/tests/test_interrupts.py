"""A signal between any two lines of loan, commit, next and release leaves a channel that works."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest
from conftest import LIMIT, SOURCE

PARTS = ("channel_", "_channel_parts", "_messages", "_ring", "_slot_loans", "_waiting", "_room")

pytestmark = pytest.mark.usefixtures("ends_in_time")


class Interrupted:
    """Raises KeyboardInterrupt at the nth line that the package runs, as a signal would."""

    def __init__(self, nth: int) -> None:
        self._left = nth
        self.happened = False

    def __enter__(self) -> Interrupted:
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: object, *_: object) -> bool:
        sys.settrace(None)
        return kind is KeyboardInterrupt

    def _trace(self, frame, event, _):
        path, name = os.path.split(frame.f_code.co_filename)
        if not path.startswith(SOURCE) or not name.startswith(PARTS):
            return None
        if frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self.happened = True
                raise KeyboardInterrupt
        return self._trace


def at_each_line(run: Callable[[Interrupted], None]) -> int:
    """Runs it with an interruption at the first line, the second, and so on. Returns how many."""
    nth = 1
    while True:
        one = Interrupted(nth)
        run(one)
        if not one.happened:
            return nth - 1
        nth += 1


def write(writer, value: int) -> None:
    with writer.loan(LIMIT) as slot:
        slot.data[:] = bytes([value]) * 8
        slot.commit(meta=value)


@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("when_full", ["wait", "drop-newest"])
def test_an_interrupted_loan_or_commit_leaves_a_writer_that_goes_on(hub, when_full, lossy):
    def run(interruption) -> None:
        options = {"slots": 2, "when_full": when_full}
        with (
            hub.create_channel("cut", "uint8", 8, **options) as writer,
            hub.open_channel("cut", lossy=lossy) as reader,
        ):
            write(writer, 1)
            with interruption:
                write(writer, 2)
            sequences = []
            while (message := reader.try_next()) is not None:
                with message:
                    assert message.data == bytes([message.json]) * 8
                    sequences.append(message.sequence)
            for value in (3, 4):
                write(writer, value)
                with reader.next(LIMIT) as message:
                    assert message.json == value and message.data == bytes([value]) * 8
                    sequences.append(message.sequence)
            assert sequences == list(range(len(sequences))) and len(sequences) in (3, 4)

    assert at_each_line(run) > 50


@pytest.mark.parametrize("lossy", [False, True])
def test_an_interrupted_next_or_release_leaves_a_reader_that_goes_on(hub, lossy):
    def run(interruption) -> None:
        with (
            hub.create_channel("cut", "uint8", 8, slots=2) as writer,
            hub.open_channel("cut", lossy=lossy) as reader,
        ):
            write(writer, 0)
            write(writer, 1)
            taken, message = [], None
            with interruption:
                message = reader.next(LIMIT)
                taken.append(message.json)
                message.release()
            if message is not None:
                assert taken in ([], [0])
                taken = [0]
                message.release()
            while (message := reader.try_next()) is not None:
                with message:
                    assert message.data == bytes([message.json]) * 8
                    taken.append(message.json)
            assert taken == [0, 1], "each comes once"
            for value in range(2, 6):
                write(writer, value)
                with reader.next(LIMIT) as message:
                    assert message.json == value == message.sequence

    assert at_each_line(run) > 30


def test_an_interrupted_next_hands_no_message_out_that_is_still_held(hub):
    def run(interruption) -> None:
        with (
            hub.create_channel("cut", "uint8", 8, slots=2) as writer,
            hub.open_channel("cut") as reader,
        ):
            write(writer, 0)
            write(writer, 1)
            with reader.next(LIMIT) as held:
                message = None
                with interruption:
                    message = reader.next(LIMIT)
                message = message or reader.next(LIMIT)
                assert (held.json, message.json) == (0, 1)
                message.release()

    assert at_each_line(run) > 20


def test_a_release_that_was_interrupted_ends_before_the_reader_waits(hub):
    def run(interruption) -> None:
        with (
            hub.create_channel("cut", "uint8", 8, slots=1) as writer,
            hub.open_channel("cut") as reader,
        ):
            write(writer, 0)
            message = reader.next(LIMIT)
            with interruption:
                message.release()
            message.release()
            with pytest.raises(TimeoutError):
                reader.next(0)
            slot = writer.try_loan()
            assert slot is not None
            slot.close()

    assert at_each_line(run) > 10
