/**
 * The seam's part on events that other processes can wait for.
 * An event that was never recorded counts as done, on every driver: who waits for one has to know that it was recorded, by a message.
 */
import type { DriverStream } from "./gpu-driver.js";

/** The bytes of a handle that names an event or memory to another process. They are no secret and give no rights of their own. */
export const IPC_HANDLE_BYTES = 64;

/** Ended by `destroyEvent`. */
export interface DriverEvent {
  readonly ordinal: number;
  readonly imported: boolean;
}

export interface EventCalls {
  /**
   * An event without timing that can be exported.
   * @throws LIMIT_EXCEEDED on `host` for more than `limits.hostEventsMax`
   */
  createEvent(ordinal: number): DriverEvent;
  /**
   * Enqueues: the event is done once the stream gets here, and not before: it stands for its last recording. What an earlier recording
   * that is still pending does to this one is the driver's affair: `cuda` holds the stream back until that is done (measured), `host`
   * does not. Where that matters, take an event for each recording that is under way.
   * @throws UNSUPPORTED for an imported event: only the exporter records; RangeError for a stream of another device
   */
  recordEvent(event: DriverEvent, stream: DriverStream): void;
  /** Whether the stream has passed the last recording that was made before this call. */
  isEventDone(event: DriverEvent): boolean;
  /**
   * Enqueues: later work of this stream starts when the event is done, as it was last recorded before this call.
   * Where the exporter of an imported event ends before that, the stream fails with PEER_GONE on `host`; on `cuda` nothing is promised.
   */
  waitEvent(stream: DriverStream, event: DriverEvent): void;
  /** The event's handle, of IPC_HANDLE_BYTES bytes, valid while the event and its process live. @throws UNSUPPORTED for an imported event */
  exportEvent(event: DriverEvent): Uint8Array;
  /**
   * @throws OWN_HANDLE for a handle of this process, INVALID_HANDLE for one that the driver does not take: of another length, of a
   * process that ended, or no handle at all; STALE_HANDLE where the driver can tell that the process ended or destroyed the event.
   * `cuda` may take the handle of a process that was killed (measured): who needs to know looks at the process itself
   */
  importEvent(ordinal: number, handle: Uint8Array): DriverEvent;
  /**
   * The caller has seen to it that no stream of this process still waits for the event.
   * Destroyed in the exporter, its imports are undefined: whoever exports an event keeps it until nobody uses it.
   */
  destroyEvent(event: DriverEvent): void;
}
