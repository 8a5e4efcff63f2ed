/**
 * The parameter structs of libucp, as bytes. Each begins with a mask of the fields that are set, so
 * longer structs of later versions read the same bytes.
 *
 *   ucp_params_t           field_mask @0  features @8
 *   ucp_worker_params_t    field_mask @0  thread_mode @8
 *   ucp_ep_params_t        field_mask @0  address @8  err_mode @16  err_handler.cb @24
 *   ucp_request_param_t    op_attr_mask @0 (32 bits)  flags @4
 *   ucp_tag_recv_info_t    sender_tag @0  length @8
 */
import type { Address } from "../ffi/koffi.js";

const UCP_PARAM_FIELD_FEATURES = 1n;
const UCP_FEATURE_TAG = 1n;
const UCP_FEATURE_WAKEUP = 16n;

const UCP_WORKER_PARAM_FIELD_THREAD_MODE = 1n;
const UCS_THREAD_MODE_SINGLE = 0;

const UCP_EP_PARAM_FIELD_REMOTE_ADDRESS = 1n;
const UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = 2n;
const UCP_EP_PARAM_FIELD_ERR_HANDLER = 4n;
const UCP_ERR_HANDLING_MODE_PEER = 1;

const UCP_OP_ATTR_FIELD_FLAGS = 0x10;
const UCP_OP_ATTR_FLAG_NO_IMM_CMPL = 0x10000;
const UCP_EP_CLOSE_FLAG_FORCE = 1;

/** Sizes in UCX 1.22, which no later version may shrink. */
const BYTES = { context: 88, worker: 200, endpoint: 104, request: 96 } as const;

function struct(byteLength: number): { readonly bytes: Uint8Array; readonly view: DataView } {
  const memory = new ArrayBuffer(byteLength);
  return { bytes: new Uint8Array(memory), view: new DataView(memory) };
}

/** For tagged messages, and for sleeping until something happens. */
export function contextParams(): Uint8Array {
  const { bytes, view } = struct(BYTES.context);
  view.setBigUint64(0, UCP_PARAM_FIELD_FEATURES, true);
  view.setBigUint64(8, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP, true);
  return bytes;
}

export function workerParams(): Uint8Array {
  const { bytes, view } = struct(BYTES.worker);
  view.setBigUint64(0, UCP_WORKER_PARAM_FIELD_THREAD_MODE, true);
  view.setInt32(8, UCS_THREAD_MODE_SINGLE, true);
  return bytes;
}

/** @param handler called when the other side is gone */
export function endpointParams(remote: Address, handler: Address): Uint8Array {
  const { bytes, view } = struct(BYTES.endpoint);
  const fields =
    UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
    UCP_EP_PARAM_FIELD_ERR_HANDLER;
  view.setBigUint64(0, fields, true);
  view.setBigUint64(8, remote, true);
  view.setInt32(16, UCP_ERR_HANDLING_MODE_PEER, true);
  view.setBigUint64(24, handler, true);
  return bytes;
}

/** For a send, which may be done at once. */
export const sendParams: Uint8Array = struct(BYTES.request).bytes;

/** For a receive. It never completes at once, because only a request tells the length. */
export const receiveParams: Uint8Array = requestParams(0, UCP_OP_ATTR_FLAG_NO_IMM_CMPL);

/** Drops what is under way. */
export const forceCloseParams: Uint8Array = requestParams(
  UCP_OP_ATTR_FIELD_FLAGS,
  0,
  UCP_EP_CLOSE_FLAG_FORCE,
);

function requestParams(fields: number, attributes: number, flags = 0): Uint8Array {
  const { bytes, view } = struct(BYTES.request);
  view.setUint32(0, fields | attributes, true);
  view.setUint32(4, flags, true);
  return bytes;
}
