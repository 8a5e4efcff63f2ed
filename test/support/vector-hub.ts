/**
 * A hub that plays the hostile vectors: docs/protocol/vectors/hostile.json. A client names the
 * number of a vector in its hello. It gets the answers of that vector once, and good ones to all
 * else.
 */
import { constants, openSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { koffi } from "../../src/ffi/koffi.js";
import { libc } from "../../src/ffi/libc.js";
import { createBell } from "../../src/os/bell.js";
import { reopenReadOnly } from "../../src/os/memory-file.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";
import type { Call, HostileFile, HostileVector, Seal } from "../docs/vectors/hostile-answers.js";
import { obliging, type ScriptedConnection, ScriptedHub } from "./scripted-hub.js";

const MFD_ALLOW_SEALING = 2;
const MFD_CLOEXEC = 1;
const MFD_HUGETLB = 4;
const F_ADD_SEALS = 1033;
const FALLOC_FL_KEEP_SIZE = 1;
const seals: Readonly<Record<Seal, number>> = { seal: 1, shrink: 2, grow: 4, write: 8 };
const ops: Readonly<Partial<Record<Call, string>>> = {
  connect: "hello",
  create: "create",
  list: "list",
};

/** @returns undefined if the system has no such memory */
function makeFile(file: HostileFile): OwnedFd | undefined {
  switch (file.kind) {
    case "eventfd":
      return createBell();
    case "socket": {
      const [one, other] = SeqpacketSocket.pair();
      other.close();
      return one.fd;
    }
    case "pipe": {
      const ends = new Int32Array(2);
      koffi().load(null).func("pipe", "int", ["void*"])(ends);
      new OwnedFd(Number(ends[1])).close();
      return new OwnedFd(Number(ends[0]));
    }
    case "null":
      return new OwnedFd(openSync("/dev/null", constants.O_RDWR));
    case "folder":
      return new OwnedFd(openSync(tmpdir(), constants.O_RDONLY | constants.O_DIRECTORY));
    default:
      return makeMemory(file);
  }
}

function makeMemory(file: HostileFile): OwnedFd | undefined {
  const huge = file.kind === "huge" ? MFD_HUGETLB : 0;
  const number = libc().memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
  if (number < 0) return undefined;
  const fd = new OwnedFd(number);
  libc().ftruncate(number, file.bytes ?? 0);
  for (const line of file.hex ?? []) {
    const [at, bytes] = line.split(": ");
    writeSync(number, Buffer.from(String(bytes), "hex"), 0, undefined, Number(at));
  }
  if (file.content !== undefined) writeSync(number, Buffer.from(file.content, "latin1"));
  if (file.allocated !== undefined) {
    const fallocate = koffi().load(null).func("fallocate", "int", ["int", "int", "long", "long"]);
    fallocate(number, FALLOC_FL_KEEP_SIZE, 0, file.allocated);
  }
  const names = file.seals ?? (["shrink", "grow", "seal"] as const);
  libc().fcntl(
    number,
    F_ADD_SEALS,
    names.reduce((sum, name) => sum | seals[name], 0),
  );
  if (file.readOnly === undefined) return fd;
  const reopened = reopenReadOnly(fd);
  fd.close();
  return reopened;
}

/** Of the object in the vectors. */
const LEASE = 9;

export class VectorHub {
  readonly #hub: ScriptedHub;
  readonly #files: ReadonlyMap<string, HostileFile>;
  readonly #vectors: readonly HostileVector[];
  readonly #playing = new WeakMap<ScriptedConnection, number>();
  readonly #played = new Set<ScriptedConnection>();
  readonly #released = new Set<number>();

  constructor(
    socketPath: string,
    {
      files,
      vectors,
    }: {
      files: Readonly<Record<string, HostileFile>>;
      vectors: readonly HostileVector[];
    },
  ) {
    this.#files = new Map(Object.entries(files));
    this.#vectors = vectors;
    const good = obliging();
    this.#hub = new ScriptedHub(socketPath, (request, connection) => {
      if (request.op === "hello") {
        const { program } = request.client as { program: string };
        this.#playing.set(connection, Number(program.split(" ")[1]));
      }
      const vector = this.#vectors[this.#playing.get(connection) ?? -1];
      const op = vector === undefined ? undefined : (ops[vector.call] ?? "open");
      if (request.op === "release" && request.lease === LEASE)
        this.#released.add(this.#playing.get(connection) ?? -1);
      if (vector === undefined || request.op !== op || this.#played.has(connection))
        return good(request, connection);
      this.#played.add(connection);
      this.#play(vector, request.id, connection);
      return undefined;
    });
  }

  /** Whether the client gave back the lease of this vector. */
  hasReleased(number: number): boolean {
    return this.#released.has(number);
  }

  #play(vector: HostileVector, id: number, connection: ScriptedConnection): void {
    const fds = vector.fds.map((named) => {
      const file = typeof named === "string" ? this.#files.get(named) : named;
      if (file === undefined) throw new Error(`no file "${named}"`);
      // Without huge pages memory takes their place that can be resized, and is refused as well.
      return makeFile(file) ?? (makeMemory({ kind: "memory", seals: [] }) as OwnedFd);
    });
    for (const [at, text] of vector.answers.entries()) {
      const whole = text
        .replaceAll("$ID", String(id))
        .replaceAll(/\$\((\d+)\*(.)\)/g, (_, count, part) => part.repeat(Number(count)));
      const bytes = Buffer.from(whole, "latin1");
      connection.sendBytes(bytes, at === 0 ? fds : []);
    }
    for (const fd of fds) fd.close();
  }

  [Symbol.dispose](): void {
    this.#hub[Symbol.dispose]();
  }
}
