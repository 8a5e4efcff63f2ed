"""Timelines of a hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._choices import Replace, TimelineSharing, WhenWriterGone
from .._descriptors import MemorySource, check_name, make_descriptor, timeline_offset, wrong_kind
from .._fds import SharedFds
from .._memory import check_file, create_file
from .._protocol import LINE_BYTES, POISON
from .._waiting import async_form
from .._words import Words
from ..shared import REQUEST_S
from ..timelines import TIMELINE_FILE_BYTES, OwnedTimeline, Timeline, take_over
from .session import Opened, Session, check_replace, discard
from .sharing import checked_sharing


class HubTimelines(Session):
    def create_timeline(
        self,
        name: str,
        *,
        replace: Replace = False,
        when_owner_gone: WhenWriterGone = "end",
        sharing: TimelineSharing | None = None,
        timeout: float | None = REQUEST_S,
    ) -> OwnedTimeline:
        """A timeline of this process, at 0. It is published at once. Raises as `create`.

        `when_owner_gone` is "end", or "wait" for a process that calls `resume_timeline`. With
        "wait" it stays until `remove`, even if no process has it open. Its owner alone signals it,
        so `sharing` gives others access for reading alone. With `replace` it takes over the name of
        an older timeline, as `create` does.
        """
        check_replace(replace)
        if when_owner_gone not in ("end", "wait"):
            raise ValueError(f'when_owner_gone must be "end" or "wait", not {when_owner_gone!r}')
        waits = when_owner_gone == "wait"
        users = checked_sharing(sharing, of_timeline=True)
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        content: dict[str, Any] = {"kind": "timeline", "byteOffset": 0}
        if waits:
            content["whenOwnerGone"] = "wait"
        size = TIMELINE_FILE_BYTES
        while True:
            fds = SharedFds([create_file(size)])
            try:
                words = Words(fds.fds[0], size, writable=True)
            except BaseException:
                fds.close()
                raise
            descriptor = make_descriptor(None, size, size, content)
            held = self._register(name, descriptor, fds, waits, deadline, users, replace)
            timeline = OwnedTimeline(self._link, name, held, words, 0, waits)
            self._publish(held, timeline, deadline)
            # The answer to the first request may have been lost. Then the hub has ended this line.
            if words.longs[0] != POISON:
                return self._keep(timeline, held)
            timeline.close()

    def open_timeline(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> Timeline:
        """Opens a timeline of another process. As `open`."""

        def use(opened: Opened, source: MemorySource, content: Mapping[str, Any]) -> Timeline:
            words, offset = _map_line(opened, source, content, writable=False)
            return Timeline(self._link, name, opened.held, words, offset)

        return self._open(name, "read", wait, timeout, None, use)

    def resume_timeline(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> OwnedTimeline:
        """Becomes the owner of a timeline whose owner is gone (`when_owner_gone` is "wait").

        It continues at its value, and processes that wait for it go on waiting. Raises IN_USE if it
        has an owner, READ_ONLY if its `when_owner_gone` is "end", and as `open`.
        """

        def use(opened: Opened, source: MemorySource, content: Mapping[str, Any]) -> OwnedTimeline:
            words, offset = _map_line(opened, source, content, writable=True)
            take_over(words, offset // 8)
            return OwnedTimeline(self._link, name, opened.held, words, offset, True)

        return self._open(name, "read-write", wait, timeout, "writer", use)

    create_timeline_async = async_form(create_timeline, discard)
    open_timeline_async = async_form(open_timeline)
    resume_timeline_async = async_form(resume_timeline)


def _map_line(
    opened: Opened, source: MemorySource, content: Mapping[str, Any], writable: bool
) -> tuple[Words, int]:
    if content.get("kind") != "timeline":
        raise wrong_kind(opened.name, content.get("kind"), "a timeline")
    offset = timeline_offset(content, source)
    opened.require_fds(1)
    fd = opened.fds.fds[0]
    check_file(fd, source.allocation_byte_length, "the memory file")
    return Words(fd, offset + LINE_BYTES, writable), offset
