/**
 * Descriptors on which a call (close, fstat, write) waits for another process, and the processes
 * behind them.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync, writeSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { lastErrno, libc } from "../../src/ffi/libc.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { soon } from "./until.js";

const AF_INET = 2;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0x80000;
const SOL_SOCKET = 1;
const SO_LINGER = 13;
const F_SETFL = 4;
const O_NONBLOCK = 0x800;
/** Longer than any deadline of a test. */
const LINGER_SECONDS = 120;

/**
 * Makes TCP sockets with data that nobody reads. The close of the last descriptor of one waits for
 * LINGER_SECONDS.
 */
export class LingeringSockets {
  readonly #server: Server;

  readonly #connections: Socket[] = [];

  private constructor(server: Server) {
    this.#server = server;
    server.on("connection", (connection) =>
      this.#connections.push(connection.on("error", () => {})),
    );
  }

  static async open(): Promise<LingeringSockets> {
    const server = createServer({ pauseOnConnect: true });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new LingeringSockets(server);
  }

  make(): OwnedFd {
    const fd = new OwnedFd(libc().socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const address = this.#server.address();
    assert.ok(address !== null && typeof address === "object");
    const bytes = new Uint8Array(16);
    new DataView(bytes.buffer).setUint16(0, AF_INET, true);
    new DataView(bytes.buffer).setUint16(2, address.port);
    bytes.set([127, 0, 0, 1], 4);
    assert.equal(libc().connect(fd.number, bytes, bytes.byteLength), 0, `errno ${lastErrno()}`);
    libc().fcntl(fd.number, F_SETFL, O_NONBLOCK);
    fill(fd);
    const linger = new Uint8Array(Int32Array.of(1, LINGER_SECONDS).buffer);
    assert.equal(libc().setsockopt(fd.number, SOL_SOCKET, SO_LINGER, linger, 8), 0);
    return fd;
  }

  /** Ends every wait. */
  [Symbol.dispose](): void {
    this.#server.close();
    for (const connection of this.#connections) connection.destroy();
  }
}

function fill(fd: OwnedFd): void {
  const piece = Buffer.alloc(1 << 20);
  for (;;) {
    try {
      writeSync(fd.number, piece);
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
      return;
    }
  }
}

const FULL = 2n ** 64n - 2n;

/** Fills the counter of a bell and makes the bell blocking, so that to ring it would wait. */
export function fillBell(bell: number): void {
  libc().fcntl(bell, F_SETFL, O_NONBLOCK);
  for (let amount = FULL; amount > 0n; amount /= 2n)
    libc().eventfd_write(bell, amount as unknown as number);
  libc().fcntl(bell, F_SETFL, 0);
}

export const skipFuse =
  process.geteuid?.() !== 0
    ? "only root can mount a file system"
    : !existsSync("/dev/fuse")
      ? "there is no /dev/fuse"
      : spawnSync("python3", ["-c", "import socket; socket.send_fds"]).status !== 0
        ? "there is no Python with send_fds"
        : false;

/**
 * A FUSE server that answers what opens its file, and nothing from then on. Its child opens the
 * file and sends it at the given moment. With "write" the child writes the file's content to
 * descriptor 3 instead. With "file" there is no child: the process that started the server opens
 * the file and says so.
 */
const FUSE_SENDER = `
import ctypes, json, mmap, os, socket, struct, sys, threading, time
folder, hub, moment, copies, user = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
assert libc.mount(b"waits", folder.encode(), b"fuse", 6, options) == 0, os.strerror(ctypes.get_errno())
ready, opened = os.pipe(), os.pipe()
def message(number, **fields):
    return json.dumps({"v": 1, "id": number, **fields}).encode()
if moment != "file" and os.fork() == 0:
    os.close(device)
    os.read(ready[0], 1)
    file = os.open(folder + "/file", os.O_RDWR)
    if moment == "write":
        unread = mmap.mmap(file, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    os.write(opened[1], b"x")
    os.read(ready[0], 1)
    if moment == "write":
        def write():
            try:
                os.write(3, unread)
            except OSError:
                # The server has ended.
                os._exit(0)
        threading.Thread(target=write).start()
        time.sleep(0.2)
        changer = os.fork()
        if changer == 0:
            os.fchmod(3, 0o644)
            os._exit(0)
        time.sleep(0.2)
        print("waits" if os.waitpid(changer, os.WNOHANG)[0] == 0 else "free", flush=True)
        threading.Event().wait()
    if moment == "unserved":
        os.setgid(int(user))
        os.setuid(int(user))
        for _ in range(int(copies)):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            link.connect(hub)
            try:
                socket.send_fds(link, [message(1, op="hello", client={"version": "0", "program": "waits"})], [file])
            except (PermissionError, BrokenPipeError, ConnectionResetError):
                # The kernel refuses them before the hub knows who sends, and after it has hung up.
                pass
        print("sent", flush=True)
        os._exit(0)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(hub)
    array = {"dtype": "uint8", "shape": [4], "strides": [1], "byteOffset": 0}
    memory = {"version": 1, "device": {"kind": "host"}, "mechanism": "memfd", "byteLength": 4,
              "allocationByteLength": 4096, "content": {"kind": "array", "array": array}}
    create = message(2, op="create", name="waits", lifetime="held", descriptor=memory)
    hello = message(1, op="hello", client={"version": "0", "program": "waits"})
    if moment == "hello":
        time.sleep(0.2)
        socket.send_fds(link, [hello], [file])
    else:
        link.send(hello)
        link.recv(65536)
        if moment == "unread":
            link.send(message(3, op="bye"))
        try:
            socket.send_fds(link, [create], [file] * int(copies))
        except (BrokenPipeError, ConnectionResetError):
            # The hub has hung up already, if it was told goodbye.
            assert moment == "unread"
    print("sent", flush=True)
    os._exit(0)
def attributes(mode):
    return struct.pack("<QQQQQQIIIIIIIIII", 2 if mode & 0o100000 else 1, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
armed = False
def serve():
    while True:
        request = os.read(device, 1 << 20)
        _, op, number, node = struct.unpack("<IIQQ", request[:24])
        def reply(data, error=0):
            os.write(device, struct.pack("<IiQ", 16 + len(data), -error, number) + data)
        if op == 26: reply(struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, 0)[:64])
        elif op == 2: pass
        elif armed: pass
        elif op == 3: reply(struct.pack("<QII", 0, 0, 0) + attributes(0o40777 if node == 1 else 0o100666))
        elif op == 1: reply(struct.pack("<QQQQII", 2, 0, 1000, 0, 0, 0) + attributes(0o100666))
        elif op == 14: reply(struct.pack("<QII", 1, 0, 0))
        else: reply(b"", 38)
threading.Thread(target=serve, daemon=True).start()
if moment == "file":
    print("mounted", flush=True)
    sys.stdin.readline()
else:
    os.write(ready[1], b"x")
    os.read(opened[0], 1)
armed = True
libc.umount2(folder.encode(), 2)
if moment == "file":
    print("silent", flush=True)
os.write(ready[1], b"x")
time.sleep(1000)
`;

/**
 * A process that has sent a FUSE file. The server of the file answers nothing any more until this
 * is disposed of.
 */
export class FuseSender {
  readonly #server: ChildProcess;

  private constructor(server: ChildProcess) {
    this.#server = server;
  }

  /**
   * @param uid the user that sends it if the moment is "unserved", over each of `copies`
   * connections
   */
  static async start(
    folder: string,
    hubSocket: string,
    moment: string,
    copies = 1,
    uid = 0,
  ): Promise<FuseSender> {
    const args = ["-c", FUSE_SENDER, folder, hubSocket, moment, String(copies), String(uid)];
    const server = spawn("python3", args, { stdio: ["ignore", "pipe", "pipe"] });
    const sender = new FuseSender(server);
    let complaint = "";
    server.stderr.on("data", (data) => {
      complaint += String(data);
    });
    const lines = createInterface({ input: server.stdout });
    const [line] = (await soon(
      "the file is sent",
      Promise.race([once(lines, "line"), once(server, "exit")]),
    )) as [string];
    assert.equal(line, "sent", complaint);
    return sender;
  }

  /** WHY only the server: its end ends the file system, and with it every wait for it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.kill("SIGKILL");
    await once(this.#server, "exit");
  }
}

/**
 * A process that writes a FUSE file to a memory file. The server of the FUSE file does not answer.
 * The kernel makes everybody wait who writes to the memory, seals it or changes its mode, until
 * this is disposed of.
 */
export class EndlessWrite {
  readonly #server: ChildProcess;

  private constructor(server: ChildProcess) {
    this.#server = server;
  }

  static async start(folder: string, memory: OwnedFd): Promise<EndlessWrite> {
    const args = ["-c", FUSE_SENDER, folder, "", "write", "0", "0"];
    const server = spawn("python3", args, { stdio: ["ignore", "pipe", "inherit", memory.number] });
    assert.ok(server.stdout !== null);
    const lines = createInterface({ input: server.stdout });
    const [line] = (await soon(
      "it writes",
      Promise.race([once(lines, "line"), once(server, "exit")]),
    )) as [string];
    assert.equal(line, "waits");
    return new EndlessWrite(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.kill("SIGKILL");
    await once(this.#server, "exit");
  }
}

/** An open FUSE file. Its server answers nothing any more until this is disposed of. */
export class WaitingFile {
  /** Do not close it or a copy of it meanwhile: each close waits. */
  readonly fd: OwnedFd;
  readonly #server: ChildProcess;

  private constructor(fd: OwnedFd, server: ChildProcess) {
    this.fd = fd;
    this.#server = server;
  }

  static async open(folder: string): Promise<WaitingFile> {
    const args = ["-c", FUSE_SENDER, folder, "", "file", "0", "0"];
    const server = spawn("python3", args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
    assert.equal((await soon("the file system is mounted", lines.next())).value, "mounted");
    const fd = new OwnedFd(openSync(`${folder}/file`, "r+"));
    server.stdin.end("\n");
    assert.equal((await soon("its server is silent", lines.next())).value, "silent");
    return new WaitingFile(fd, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.kill("SIGKILL");
    await once(this.#server, "exit");
    // WHY not OwnedFd.close: it fails, because the server is gone.
    libc().close(this.fd.take());
  }
}
