/**
 * Events of the CUDA driver that other processes can wait for.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EVENT.html
 */
import { CudaIpcError } from "../../base/errors.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import {
  checkHandleLength,
  forgetExported,
  handleKey,
  refuseOwnHandle,
  rememberExported,
} from "../common/exported-handles.js";
import { type DriverEvent, type EventCalls, IPC_HANDLE_BYTES } from "../event-calls.js";
import { importRefusal } from "./cuda-handles.js";
import type { CudaSession } from "./cuda-session.js";
import type { CudaStreams } from "./cuda-streams.js";

/** The driver demands both: an event with timing cannot be shared. */
const EVENT_FLAGS = cuValue.CU_EVENT_DISABLE_TIMING | cuValue.CU_EVENT_INTERPROCESS;

class CudaEvent implements DriverEvent {
  readonly ordinal: number;
  readonly imported: boolean;
  readonly handle: bigint;
  /** The key of its handle among the handles that this process exported. */
  exportedKey: string | undefined;
  destroyed = false;

  constructor(ordinal: number, handle: bigint, imported: boolean) {
    this.ordinal = ordinal;
    this.handle = handle;
    this.imported = imported;
  }
}

export function cudaEvents(session: CudaSession, streams: CudaStreams): EventCalls {
  return {
    createEvent(ordinal) {
      const cuda = session.enter(ordinal);
      const out = new BigUint64Array(1);
      const status = cuda.cuEventCreate(out, EVENT_FLAGS);
      session.check(status, "cuEventCreate", `create an event on cuda:${ordinal}`);
      return new CudaEvent(ordinal, out[0] as bigint, false);
    },

    recordEvent(event, stream) {
      const own = usable(session, event, "record");
      if (own.imported) {
        const found = "it was imported, and only its exporter records it";
        throw new CudaIpcError(
          "UNSUPPORTED",
          `Cannot record an event of cuda:${own.ordinal}: ${found}`,
        );
      }
      const { handle, ordinal } = streams.usable(stream);
      if (ordinal !== own.ordinal) {
        throw new RangeError(
          `Cannot record an event of cuda:${own.ordinal} on a stream of cuda:${ordinal}`,
        );
      }
      const status = session.byHandle(ordinal, (cuda) => cuda.cuEventRecord(own.handle, handle));
      if (status === cuResult.CUDA_SUCCESS) return;
      throw session.failure(status, "cuEventRecord", `record an event on cuda:${ordinal}`);
    },

    isEventDone(event) {
      const own = usable(session, event, "ask");
      const status = session.byHandle(own.ordinal, (cuda) => cuda.cuEventQuery(own.handle));
      if (status === cuResult.CUDA_SUCCESS) return true;
      if (status === cuResult.CUDA_ERROR_NOT_READY) return false;
      const attempt = `finish the work before an event of cuda:${own.ordinal}`;
      throw session.failure(status, "cuEventQuery", attempt);
    },

    waitEvent(stream, event) {
      const own = usable(session, event, "wait for");
      const { handle, ordinal } = streams.usable(stream);
      const status = session.byHandle(ordinal, (cuda) =>
        cuda.cuStreamWaitEvent(handle, own.handle, 0),
      );
      if (status === cuResult.CUDA_SUCCESS) return;
      throw session.failure(status, "cuStreamWaitEvent", `wait for an event on cuda:${ordinal}`);
    },

    exportEvent(event) {
      const own = usable(session, event, "export");
      const cuda = session.enter(own.ordinal);
      if (own.imported) {
        throw new CudaIpcError(
          "UNSUPPORTED",
          `Cannot export an event of cuda:${own.ordinal}: it was imported`,
        );
      }
      const handle = new Uint8Array(IPC_HANDLE_BYTES);
      const status = cuda.cuIpcGetEventHandle(handle, own.handle);
      session.check(status, "cuIpcGetEventHandle", `export an event of cuda:${own.ordinal}`);
      if (own.exportedKey === undefined) {
        own.exportedKey = handleKey(handle);
        rememberExported(own.exportedKey);
      }
      return handle;
    },

    importEvent(ordinal, handle) {
      const cuda = session.enter(ordinal);
      const what = `an event on cuda:${ordinal}`;
      checkHandleLength(handle, what);
      refuseOwnHandle(handleKey(handle), what);
      const out = new BigUint64Array(1);
      const status = cuda.cuIpcOpenEventHandle(out, { reserved: handle });
      if (status !== cuResult.CUDA_SUCCESS)
        throw importRefusal(session, { status, call: "cuIpcOpenEventHandle", handle, what });
      return new CudaEvent(ordinal, out[0] as bigint, true);
    },

    destroyEvent(event) {
      const own = usable(session, event, "destroy");
      const cuda = session.enterToRelease(own.ordinal);
      own.destroyed = true;
      if (own.exportedKey !== undefined) forgetExported(own.exportedKey);
      const status = cuda.cuEventDestroy(own.handle);
      session.checkReleased(status, "cuEventDestroy", `destroy an event of cuda:${own.ordinal}`);
    },
  };
}

/** @throws CLOSED for an event that was destroyed, TypeError for one of another driver */
function usable(session: CudaSession, event: DriverEvent, verb: string): CudaEvent {
  if (!(event instanceof CudaEvent))
    throw new TypeError(`Cannot ${verb} an event of another driver`);
  // A closed driver reports that first.
  session.checkOpen();
  if (!event.destroyed) return event;
  throw new CudaIpcError(
    "CLOSED",
    `Cannot ${verb} an event of cuda:${event.ordinal}: it was destroyed`,
  );
}
