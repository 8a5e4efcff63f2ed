/**
 * The event calls of the seam. Other processes can wait for these events. On every driver an event
 * that was never recorded counts as done. A process that waits for an event must therefore learn by
 * a message that it was recorded.
 */
import type { DriverStream } from "./stream-calls.js";

/** The size of a handle that names an event or memory to another process. A handle is no secret. */
export const IPC_HANDLE_BYTES = 64;

/** Ended by `destroyEvent`. */
export interface DriverEvent {
  readonly ordinal: number;
  readonly imported: boolean;
}

export interface EventCalls {
  /**
   * Creates an event without timing that can be exported.
   * @throws LIMIT_EXCEEDED on `host` for more than `limits.hostEventsMax`
   */
  createEvent(ordinal: number): DriverEvent;
  /**
   * Enqueues a recording: the event is done when the stream gets here. The event stands for its
   * last recording. If an earlier recording is still pending, `cuda` holds the stream back until
   * that one is done (measured), and `host` does not. If this matters, use one event per recording.
   * @throws UNSUPPORTED for an imported event, because only the exporter records; RangeError for a
   * stream of another device
   */
  recordEvent(event: DriverEvent, stream: DriverStream): void;
  /** Whether the stream has passed the last recording made before this call. */
  isEventDone(event: DriverEvent): boolean;
  /**
   * Enqueues a wait: later work of this stream starts when the last recording made before this call
   * is done. If the exporter of an imported event ends first, the stream fails with PEER_GONE on
   * `host`; `cuda` promises nothing.
   */
  waitEvent(stream: DriverStream, event: DriverEvent): void;
  /**
   * Returns the event's handle, of IPC_HANDLE_BYTES bytes. It is valid while the event and its
   * process live.
   * @throws UNSUPPORTED for an imported event
   */
  exportEvent(event: DriverEvent): Uint8Array;
  /**
   * Opens an event of another process. `cuda` may accept the handle of a process that was killed
   * (measured). If you need to know, watch the process itself.
   * @throws OWN_HANDLE for a handle of this process; INVALID_HANDLE if the driver refuses it;
   * STALE_HANDLE if the driver can tell that the process ended or destroyed the event
   */
  importEvent(ordinal: number, handle: Uint8Array): DriverEvent;
  /**
   * Destroys an event. The caller makes sure that no stream of this process still waits for it.
   * If the exporter destroys it, imports of it are undefined, so keep an exported event while it is
   * in use.
   */
  destroyEvent(event: DriverEvent): void;
}
