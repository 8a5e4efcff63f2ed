/** Events of the host device: recorded by a stream's write into the arena, waited for by looking there. */
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { DriverEvent, EventCalls } from "../event-calls.js";
import { checkHandleLength, handleKey } from "../exported-handles.js";
import type { DriverStream } from "../gpu-driver.js";
import { EventArena } from "./event-arena.js";
import type { HostParts } from "./host-driver.js";
import { decodeHostHandle } from "./host-handle.js";
import type { HostOperation } from "./host-operations.js";
import type { HostStreams } from "./host-streams.js";

/** What bytes of a handle are the same for all events of one arena: process, file, and their proof. */
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

  /** @throws STALE_HANDLE where the exporter destroyed the event, CLOSED where this process did */
  check(verb: string): void {
    if (this.destroyed) throw new CudaIpcError("CLOSED", `Cannot ${verb} an event of host: it was destroyed`);
    if (this.arena.generationAt(this.slot) === this.generation) return;
    throw new CudaIpcError("STALE_HANDLE", `Cannot ${verb} an event of host: its exporter destroyed it`);
  }
}

export function createHostEvents({ session, streams }: HostParts): EventCalls {
  const events = new HostEvents(streams);
  return {
    createEvent(ordinal) {
      session.use(ordinal);
      return events.create();
    },
    recordEvent: (event, stream) => events.record(event, stream),
    isEventDone(event) {
      session.use();
      return events.isDone(event);
    },
    waitEvent: (stream, event) => events.wait(stream, event),
    exportEvent(event) {
      session.use();
      return events.export(event);
    },
    importEvent(ordinal, handle) {
      session.use(ordinal);
      return events.import(handle);
    },
    destroyEvent(event) {
      session.use();
      events.destroy(event);
    },
  };
}

class HostEvents {
  readonly #streams: HostStreams;
  /** From the first event to the last. */
  #own: EventArena | undefined;
  readonly #imported = new Map<string, EventArena>();

  constructor(streams: HostStreams) {
    this.#streams = streams;
  }

  create(): DriverEvent {
    this.#own ??= EventArena.create();
    const { slot, generation } = this.#own.claim();
    return new HostEvent(this.#own, slot, generation, false);
  }

  record(event: DriverEvent, stream: DriverStream): void {
    const queue = this.#streams.queueOf(stream);
    const own = this.#usable(event, "record");
    if (own.imported) {
      const found = "it was imported, and only its exporter records it";
      throw new CudaIpcError("UNSUPPORTED", `Cannot record an event of host: ${found}`);
    }
    // WHY asked first: a stream that failed takes nothing, and a recording that is counted but never done would be waited for.
    queue.isIdle();
    queue.enqueue(recording(own, own.arena.countRecording(own.slot)));
  }

  isDone(event: DriverEvent): boolean {
    const { arena, slot } = this.#usable(event, "ask");
    return arena.isDone(slot, arena.recordedAt(slot));
  }

  wait(stream: DriverStream, event: DriverEvent): void {
    const queue = this.#streams.queueOf(stream);
    const own = this.#usable(event, "wait for");
    queue.enqueue(waiting(own, own.arena.recordedAt(own.slot)));
  }

  export(event: DriverEvent): Uint8Array {
    const { arena, slot, generation } = this.#usable(event, "export");
    return arena.handle(slot, generation);
  }

  import(bytes: Uint8Array): DriverEvent {
    const what = "an event of the host device";
    checkHandleLength(bytes, what);
    const handle = decodeHostHandle(bytes, "event");
    if (handle === undefined || handle.slot >= limits.hostEventsMax || handle.generation === 0) {
      throw new CudaIpcError("INVALID_HANDLE", `Cannot import ${what}: these 64 bytes are no handle of an event`);
    }
    const key = handleKey(bytes.subarray(...ARENA_KEY));
    const known = this.#imported.get(key);
    if (known?.exporterEnded)
      throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: process ${handle.pid} ended`);
    const arena = known ?? EventArena.import(handle);
    const event = new HostEvent(arena, handle.slot, handle.generation, true);
    try {
      event.check("import");
    } catch (error) {
      event.arena.release();
      throw error;
    }
    this.#imported.set(key, arena);
    return event;
  }

  destroy(event: DriverEvent): void {
    const own = this.#known(event, "destroy");
    if (own.destroyed) own.check("destroy");
    own.destroyed = true;
    if (!own.imported) own.arena.unclaim(own.slot);
    if (!own.arena.release()) return;
    if (this.#own === own.arena) this.#own = undefined;
    for (const [key, arena] of this.#imported) if (arena === own.arena) this.#imported.delete(key);
  }

  #usable(event: DriverEvent, verb: string): HostEvent {
    const own = this.#known(event, verb);
    own.check(verb);
    return own;
  }

  #known(event: DriverEvent, verb: string): HostEvent {
    if (!(event instanceof HostEvent)) throw new TypeError(`Cannot ${verb} an event of another driver`);
    return event;
  }
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
      // WHY asked again: it may have been done just before its exporter ended.
      if (arena.isDone(slot, number)) return "done";
      throw new CudaIpcError("PEER_GONE", "Cannot wait for an event of host: its exporter ended before it was done");
    },
  };
}
