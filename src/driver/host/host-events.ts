/** Events of the host device. A stream records one by a write to the arena; a wait reads there. */
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { checkHandleLength, handleKey } from "../common/exported-handles.js";
import type { DriverEvent, EventCalls } from "../event-calls.js";
import { EventArena } from "./event-arena.js";
import { decodeHostHandle } from "./host-handle.js";
import type { HostOperation } from "./host-operations.js";
import type { HostSession } from "./host-session.js";
import type { HostStreams } from "./host-streams.js";

/** The bytes of a handle that all events of one arena share: process, file, and their proof. */
const ARENA_KEY = [8, 32] as const;
const WORD_BYTES = 8;

class HostEvent implements DriverEvent {
  readonly ordinal = 0;
  readonly imported: boolean;
  readonly arena: EventArena;
  readonly slot: number;
  readonly generation: number;
  destroyed = false;

  constructor(arena: EventArena, slot: number, generation: number, imported: boolean) {
    arena.retain();
    this.arena = arena;
    this.slot = slot;
    this.generation = generation;
    this.imported = imported;
  }

  /** @throws STALE_HANDLE if the exporter destroyed the event, CLOSED if this process did */
  check(verb: string): void {
    if (this.destroyed)
      throw new CudaIpcError("CLOSED", `Cannot ${verb} an event of host: it was destroyed`);
    if (this.arena.generationAt(this.slot) === this.generation) return;
    throw new CudaIpcError(
      "STALE_HANDLE",
      `Cannot ${verb} an event of host: its exporter destroyed it`,
    );
  }
}

export function hostEvents(session: HostSession, streams: HostStreams): EventCalls {
  /** Exists from the first event to the last. */
  let ownArena: EventArena | undefined;
  const importedArenas = new Map<string, EventArena>();
  return {
    createEvent(ordinal) {
      session.use(ordinal);
      ownArena ??= EventArena.create();
      const { slot, generation } = ownArena.claim();
      return new HostEvent(ownArena, slot, generation, false);
    },

    recordEvent(event, stream) {
      const queue = streams.queueOf(stream);
      const own = usable(event, "record");
      if (own.imported) {
        const found = "it was imported, and only its exporter records it";
        throw new CudaIpcError("UNSUPPORTED", `Cannot record an event of host: ${found}`);
      }
      // WHY: a failed stream takes no work, and then the recording must not be counted.
      queue.isIdle();
      queue.enqueue(recording(own, own.arena.countRecording(own.slot)));
    },

    isEventDone(event) {
      session.use();
      const { arena, slot } = usable(event, "ask");
      return arena.isDone(slot, arena.recordedAt(slot));
    },

    waitEvent(stream, event) {
      const queue = streams.queueOf(stream);
      const own = usable(event, "wait for");
      queue.enqueue(waiting(own, own.arena.recordedAt(own.slot)));
    },

    exportEvent(event) {
      session.use();
      const { arena, slot, generation } = usable(event, "export");
      return arena.handle(slot, generation);
    },

    importEvent(ordinal, handle) {
      session.use(ordinal);
      return importFrom(importedArenas, handle);
    },

    destroyEvent(event) {
      session.use();
      const own = known(event, "destroy");
      if (own.destroyed) own.check("destroy");
      own.destroyed = true;
      if (!own.imported) own.arena.unclaim(own.slot);
      if (!own.arena.release()) return;
      if (ownArena === own.arena) ownArena = undefined;
      for (const [key, arena] of importedArenas)
        if (arena === own.arena) importedArenas.delete(key);
    },
  };
}

function importFrom(arenas: Map<string, EventArena>, bytes: Uint8Array): HostEvent {
  const what = "an event of the host device";
  checkHandleLength(bytes, what);
  const handle = decodeHostHandle(bytes, "event");
  if (handle === undefined || handle.slot >= limits.hostEventsMax || handle.generation === 0) {
    throw new CudaIpcError(
      "INVALID_HANDLE",
      `Cannot import ${what}: these 64 bytes are no handle of an event`,
    );
  }
  const key = handleKey(bytes.subarray(...ARENA_KEY));
  const opened = arenas.get(key);
  if (opened?.exporterEnded)
    throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: process ${handle.pid} ended`);
  const arena = opened ?? EventArena.import(handle);
  const event = new HostEvent(arena, handle.slot, handle.generation, true);
  try {
    event.check("import");
  } catch (error) {
    event.arena.release();
    throw error;
  }
  arenas.set(key, arena);
  return event;
}

function usable(event: DriverEvent, verb: string): HostEvent {
  const own = known(event, verb);
  own.check(verb);
  return own;
}

function known(event: DriverEvent, verb: string): HostEvent {
  if (!(event instanceof HostEvent))
    throw new TypeError(`Cannot ${verb} an event of another driver`);
  return event;
}

function recording(event: HostEvent, number: bigint): HostOperation {
  return {
    byteLength: WORD_BYTES,
    step: () => (event.destroyed || event.arena.tryFinish(event.slot, number) ? "done" : "waiting"),
  };
}

function waiting(event: HostEvent, number: bigint): HostOperation {
  const { arena, slot } = event;
  return {
    byteLength: WORD_BYTES,
    step() {
      event.check("wait for");
      if (arena.isDone(slot, number)) return "done";
      if (!arena.exporterEnded) return "waiting";
      // It may have been done just before its exporter ended.
      if (arena.isDone(slot, number)) return "done";
      throw new CudaIpcError(
        "PEER_GONE",
        "Cannot wait for an event of host: its exporter ended before it was done",
      );
    },
  };
}
