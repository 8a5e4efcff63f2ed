"""Groups: processes of Python and of Node that meet at barriers."""

from __future__ import annotations

import asyncio
import os
import socket as sockets
import struct
import threading

import pytest
from conftest import LIMIT, code, until, until_times_out

import cuda_ipc
from cuda_ipc import Group, rank_from_environment

MEMBER = (
    "path, rank, size = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])\n"
    "group = cuda_ipc.Group.join(path=path, rank=rank, size=size)\n"
    "say('joined')\n"
    "for line in sys.stdin:\n"
    "    told = json.loads(line)\n"
    "    if told == 'leave': break\n"
    "    try:\n"
    "        if told == 'barrier': group.barrier()\n"
    "        all = group.all_gather(told['gather']) if isinstance(told, dict) else []\n"
    "        say({'rank': rank, 'all': all})\n"
    "    except cuda_ipc.CudaIpcError as error:\n"
    "        say({'code': error.code, 'message': error.message})\n"
    "group.close(); hub.close()\n"
)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "group.sock")


def in_thread(action):
    """Runs it on a thread. Calling the result waits for what it returned or raised."""
    outcome = []

    def run():
        try:
            outcome.append((action(), None))
        except BaseException as failure:
            outcome.append((None, failure))

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(LIMIT)
        value, failure = outcome[0]
        if failure is not None:
            raise failure
        return value

    return result


@pytest.mark.parametrize("own", [0, 1, 2])
def test_members_of_both_languages_meet_and_exchange_values(path, node, python, own):
    ranks = [rank for rank in range(3) if rank != own]
    peers = [node("group", path, ranks[0], 3), python(MEMBER, path, ranks[1], 3)]
    with Group.join(path=path, rank=own, size=3) as group:
        assert [peer.said() for peer in peers] == ["joined", "joined"]
        assert (group.rank, group.size, group.pids[own]) == (own, 3, os.getpid())
        for n in range(5):
            for peer in peers:
                peer.tell("barrier" if n % 2 else {"gather": {"n": n, "text": "\u00e4"}})
            if n % 2:
                group.barrier()
            else:
                wanted = [{"n": n, "text": "\u00e4"}] * 3
                wanted[own] = [own]
                assert group.all_gather([own]) == wanted
            said = [peer.said() for peer in peers]
            assert [one["rank"] for one in said] == ranks
            if not n % 2:
                assert said[0]["all"] == said[1]["all"] == wanted
        for peer in peers:
            peer.tell("leave")
            peer.finish()
        with pytest.raises(cuda_ipc.CudaIpcError, match="has left the group") as left:
            group.barrier()
        assert left.value.code == "PEER_GONE"
    assert not os.path.exists(path)
    assert not os.path.exists(path + ".lock")


@pytest.mark.parametrize("language", ["node", "python"])
@pytest.mark.parametrize("killed", [0, 1])
def test_the_death_of_a_member_is_told_with_its_rank(path, node, python, language, killed):
    peer = node("group", path, killed, 2) if language == "node" else python(MEMBER, path, killed, 2)
    with Group.join(path=path, rank=1 - killed, size=2) as group:
        assert peer.said() == "joined"
        waiting = in_thread(lambda: code(lambda: group.barrier(LIMIT)))
        until("it waits", lambda: group._is_waiting)
        peer.kill()
        assert waiting() == "PEER_GONE"
        with pytest.raises(cuda_ipc.CudaIpcError, match=f"rank {killed} .* has ended"):
            group.barrier()


def test_a_timeout_names_who_is_missing_and_breaks_the_group(path, node):
    peer = node("group", path, 1, 2)
    with Group.join(path=path, rank=0, size=2) as group:
        assert peer.said() == "joined"
        with pytest.raises(TimeoutError, match=r"rank 1 .* has not come"):
            group.barrier(0.1)
        assert code(group.barrier) == "BARRIER_BROKEN"
        peer.tell("barrier")
        assert peer.said()["code"] == "BARRIER_BROKEN"


def test_rank_0_names_the_ranks_that_have_not_joined(path):
    def alone(limit: float) -> None:
        other = in_thread(lambda: code(lambda: Group.join(path=path, rank=2, size=3)))
        try:
            Group.join(path=path, rank=0, size=3, timeout=limit)
        finally:
            others.append(other())

    others: list[str] = []
    until_times_out(r"have not joined: rank 1 \[", alone)
    assert others[-1] == "BARRIER_BROKEN"
    assert not os.path.exists(path)
    with pytest.raises(TimeoutError, match="there is no such socket"):
        Group.join(path=path, rank=1, size=2, timeout=0.1)


def test_what_rank_0_refuses(path):
    first = in_thread(lambda: Group.join(path=path, rank=0, size=2))
    until("it listens", lambda: os.path.exists(path))
    assert code(lambda: Group.join(path=path, rank=0, size=2)) == "NAME_TAKEN"
    assert code(lambda: Group.join(path=path, rank=1, size=3)) == "WRONG_KIND"
    for packet in (b"no json", b'{"v":1}', b'{"v":2,"op":"join"}', b"x" * 5000):
        client = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
        with client:
            client.settimeout(LIMIT)
            client.connect(path)
            client.send(packet)
            assert b'"ok":false' in client.recv(4096)
            assert client.recv(4096) == b""
    second = Group.join(path=path, rank=1, size=2)
    with first(), second:
        assert code(lambda: Group.join(path=path, rank=1, size=2)) == "NAME_TAKEN"
    second.close()
    assert code(second.barrier) == "CLOSED"


def test_a_member_that_gives_up_before_the_first_barrier_breaks_the_group(path):
    """It joins, and hangs up instead of arriving."""
    from cuda_ipc._deadline import Deadline
    from cuda_ipc._fds import close_all
    from cuda_ipc._group.admission import Address
    from cuda_ipc._group.join import join_host

    first = in_thread(lambda: code(lambda: Group.join(path=path, rank=0, size=2)))
    joined = join_host(Address(path, 2, "the group"), 1, Deadline("join", LIMIT))
    joined.connection.close()
    assert first() == "BARRIER_BROKEN"
    joined.words.close()
    close_all(joined.pidfds.values())


def test_words_that_no_member_writes_break_the_group(path):
    first = in_thread(lambda: Group.join(path=path, rank=0, size=2))
    second = Group.join(path=path, rank=1, size=2)
    with first() as group, second:
        second._words._words.store(8 * 2, 77)  # rank 1 has entered barrier 77
        with pytest.raises(cuda_ipc.CudaIpcError, match="a value that no member writes") as found:
            group.barrier()
        assert found.value.code == "BARRIER_BROKEN"


def test_a_stale_socket_is_replaced_and_a_file_is_not(path):
    left = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
    left.bind(path)
    left.close()
    assert code(lambda: Group.join(path=path, rank=1, size=2, timeout=0.1)) == "PEER_GONE"
    with Group.join(path=path, rank=0, size=1) as group:
        assert group.all_gather("alone") == ["alone"]
    with open(path, "w") as file:
        file.write("mine")
    assert code(lambda: Group.join(path=path, rank=0, size=1)) == "FILE_EXISTS"
    assert not os.path.exists(path + ".lock")


def test_a_name_lies_in_the_folder_of_the_hub(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_IPC_SOCKET", str(tmp_path / "runtime" / "hub.sock"))
    with Group.join("workers", rank=0, size=1):
        files = sorted(os.listdir(tmp_path / "runtime"))
        assert files == ["group-workers.sock", "group-workers.sock.lock"]
        assert os.stat(tmp_path / "runtime").st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "options",
    [{"rank": 2}, {"rank": -1}, {"size": 0}, {"size": 257}, {"rank": "0"}, {"path": None}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(path, options):
    with pytest.raises((TypeError, ValueError)):
        Group.join(**{"path": path, "rank": 0, "size": 2, **options})


def test_values_that_cannot_be_sent_are_refused_before_any_wait(path):
    with Group.join(path=path, rank=0, size=1) as group:
        with pytest.raises(TypeError):
            group.all_gather(object())
        assert code(lambda: group.all_gather("x" * 70_000)) == "MESSAGE_TOO_LARGE"
        assert group.all_gather("x" * 60_000) == ["x" * 60_000]


def test_tasks_meet_too_and_a_cancelled_one_breaks_the_group(path):
    async def main():
        joining = [Group.join_async(path=path, rank=rank, size=2) for rank in range(2)]
        first, second = await asyncio.gather(*joining)
        async with first, second:
            both = await asyncio.gather(first.all_gather_async(1), second.all_gather_async(2))
            assert both == [[1, 2], [1, 2]]
            await asyncio.gather(first.barrier_async(), second.barrier_async())
            waiting = asyncio.ensure_future(first.barrier_async())
            while not first._is_waiting:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(cuda_ipc.CudaIpcError, match="gave up waiting"):
                await second.barrier_async()

    asyncio.run(main())


def names():
    return [thread.name for thread in threading.enumerate()]


def test_a_cancelled_join_leaves_nothing(path):
    async def main():
        joining = asyncio.ensure_future(Group.join_async(path=path, rank=0, size=2))
        while not os.path.exists(path):
            await asyncio.sleep(0.001)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining

    asyncio.run(main())
    until("the socket is gone", lambda: not os.path.exists(path))
    until("its threads are gone", lambda: "cuda-ipc call" not in names())


def test_a_child_of_fork_is_no_member(path):
    with Group.join(path=path, rank=0, size=1) as group:
        pid = os.fork()
        if pid == 0:
            try:
                group.barrier()
            except cuda_ipc.CudaIpcError as refused:
                group.close()
                os._exit(0 if refused.code == "CLOSED" else 2)
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert os.path.exists(path)
        group.barrier()


def test_the_rank_of_a_launcher():
    assert rank_from_environment({"PMI_RANK": "1", "PMI_SIZE": "4"}) == (1, 4)
    assert rank_from_environment({"RANK": "0", "WORLD_SIZE": "2"}) == (0, 2)
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    assert rank_from_environment(slurm) == (0, 1)
    mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}
    assert rank_from_environment({**slurm, **mpi}) == (3, 8)
    assert code(lambda: rank_from_environment({})) == "NO_RANK"
    for wrong in (
        {**mpi, "PMI_RANK": "2", "PMI_SIZE": "8"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "0"},
        {"RANK": "0", "WORLD_SIZE": "257"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "\u0661", "WORLD_SIZE": "2"},
    ):
        assert code(lambda: rank_from_environment(wrong)) == "INVALID_RANK"


def test_the_memory_has_the_layout_of_the_protocol(path):
    with Group.join(path=path, rank=0, size=1) as group:
        group.all_gather(7)
        words = group._words._words.bytes
        assert struct.unpack_from("<QQQ", words, 0) == (0x6375646169706367, 1, 1)
        assert struct.unpack_from("<QQQ", words, 64) == (2, 0, 2 * 2**20 + 1)
        assert bytes(words[4096:4097]) == b"7"


def test_a_host_that_is_closed_before_its_thread_begins_leaves_nothing(tmp_path, monkeypatch):
    from cuda_ipc._group.admission import Address
    from cuda_ipc._group.host import GroupHost

    late = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: late.append(self))
    host = GroupHost(Address(str(tmp_path / "s"), 2, "a group"))
    host.listen()
    host.close()
    # The signal came before the thread's first step.
    start(late[0])
    late[0].join()
    assert late[0].ident is not None
    assert os.listdir(tmp_path) == []
