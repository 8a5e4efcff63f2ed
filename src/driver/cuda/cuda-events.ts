/**
 * Events that other processes can wait for.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EVENT.html
 */
import { CudaIpcError } from "../../base/errors.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { type DriverEvent, type EventCalls, IPC_HANDLE_BYTES } from "../event-calls.js";
import {
  checkHandleLength,
  forgetExported,
  handleKey,
  refuseOwnHandle,
  rememberExported,
} from "../exported-handles.js";
import type { DriverStream } from "../gpu-driver.js";
import type { CudaParts } from "./cuda-driver.js";
import { importRefusal } from "./cuda-handles.js";
import type { CudaSession } from "./cuda-session.js";
import type { CudaStreams } from "./cuda-stream.js";

/** The driver demands both: an event with timing cannot be shared. */
const EVENT_FLAGS = cuValue.CU_EVENT_DISABLE_TIMING | cuValue.CU_EVENT_INTERPROCESS;

class CudaEvent implements DriverEvent {
  readonly ordinal: number;
  readonly imported: boolean;
  readonly handle: bigint;
  /** Under which its handle is remembered as this process's own. */
  exportedKey: string | undefined;
  destroyed = false;

  constructor(ordinal: number, handle: bigint, imported: boolean) {
    this.ordinal = ordinal;
    this.handle = handle;
    this.imported = imported;
  }
}

export function createCudaEvents({ session, streams }: CudaParts): EventCalls {
  const events = new CudaEvents(session, streams);
  return {
    createEvent: (ordinal) => events.create(ordinal),
    recordEvent: (event, stream) => events.record(event, stream),
    isEventDone: (event) => events.isDone(event),
    waitEvent: (stream, event) => events.wait(stream, event),
    exportEvent: (event) => events.export(event),
    importEvent: (ordinal, handle) => events.import(ordinal, handle),
    destroyEvent: (event) => events.destroy(event),
  };
}

class CudaEvents {
  readonly #session: CudaSession;
  readonly #streams: CudaStreams;

  constructor(session: CudaSession, streams: CudaStreams) {
    this.#session = session;
    this.#streams = streams;
  }

  create(ordinal: number): DriverEvent {
    const cuda = this.#session.enter(ordinal);
    const out = new BigUint64Array(1);
    const status = cuda.cuEventCreate(out, EVENT_FLAGS);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuEventCreate", `create an event on cuda:${ordinal}`);
    }
    return new CudaEvent(ordinal, out[0] as bigint, false);
  }

  record(event: DriverEvent, stream: DriverStream): void {
    const { own } = this.#enter(event, "record");
    if (own.imported) {
      const found = "it was imported, and only its exporter records it";
      throw new CudaIpcError("UNSUPPORTED", `Cannot record an event of cuda:${own.ordinal}: ${found}`);
    }
    const { cuda, handle, ordinal } = this.#streams.enter(stream);
    if (ordinal !== own.ordinal) {
      throw new RangeError(`Cannot record an event of cuda:${own.ordinal} on a stream of cuda:${ordinal}`);
    }
    const status = cuda.cuEventRecord(own.handle, handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuEventRecord", `record an event on cuda:${ordinal}`);
    }
  }

  isDone(event: DriverEvent): boolean {
    const { cuda, own } = this.#enter(event, "ask");
    const status = cuda.cuEventQuery(own.handle);
    if (status === cuResult.CUDA_SUCCESS) return true;
    if (status === cuResult.CUDA_ERROR_NOT_READY) return false;
    throw this.#session.failure(status, "cuEventQuery", `finish the work before an event of cuda:${own.ordinal}`);
  }

  wait(stream: DriverStream, event: DriverEvent): void {
    const { own } = this.#enter(event, "wait for");
    const { cuda, handle, ordinal } = this.#streams.enter(stream);
    const status = cuda.cuStreamWaitEvent(handle, own.handle, 0);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuStreamWaitEvent", `wait for an event on cuda:${ordinal}`);
    }
  }

  export(event: DriverEvent): Uint8Array {
    const { cuda, own } = this.#enter(event, "export");
    if (own.imported) {
      throw new CudaIpcError("UNSUPPORTED", `Cannot export an event of cuda:${own.ordinal}: it was imported`);
    }
    const handle = new Uint8Array(IPC_HANDLE_BYTES);
    const status = cuda.cuIpcGetEventHandle(handle, own.handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuIpcGetEventHandle", `export an event of cuda:${own.ordinal}`);
    }
    if (own.exportedKey === undefined) {
      own.exportedKey = handleKey(handle);
      rememberExported(own.exportedKey);
    }
    return handle;
  }

  import(ordinal: number, handle: Uint8Array): DriverEvent {
    const cuda = this.#session.enter(ordinal);
    const what = `an event on cuda:${ordinal}`;
    checkHandleLength(handle, what);
    refuseOwnHandle(handleKey(handle), what);
    const out = new BigUint64Array(1);
    const status = cuda.cuIpcOpenEventHandle(out, { reserved: handle });
    if (status !== cuResult.CUDA_SUCCESS) {
      throw importRefusal(this.#session, { status, call: "cuIpcOpenEventHandle", handle, what });
    }
    return new CudaEvent(ordinal, out[0] as bigint, true);
  }

  destroy(event: DriverEvent): void {
    const own = usableEvent(event, "destroy");
    const cuda = this.#session.enterToRelease(own.ordinal);
    own.destroyed = true;
    if (own.exportedKey !== undefined) forgetExported(own.exportedKey);
    const status = cuda.cuEventDestroy(own.handle);
    this.#session.checkReleased(status, "cuEventDestroy", `destroy an event of cuda:${own.ordinal}`);
  }

  /** The driver's own event, its context made current. */
  #enter(event: DriverEvent, verb: string): { readonly cuda: Libcuda; readonly own: CudaEvent } {
    const own = usableEvent(event, verb);
    return { cuda: this.#session.enter(own.ordinal), own };
  }
}

function usableEvent(event: DriverEvent, verb: string): CudaEvent {
  if (!(event instanceof CudaEvent)) throw new TypeError(`Cannot ${verb} an event of another driver`);
  if (!event.destroyed) return event;
  throw new CudaIpcError("CLOSED", `Cannot ${verb} an event of cuda:${event.ordinal}: it was destroyed`);
}
