/** `cuda-ipc/peer`: sharing between processes without a hub, and groups of processes. */
import { checkRuntime } from "../base/check-runtime.js";

export { Group, type GroupOptions } from "../peer/group.js";
export {
  type ReadHandleFileOptions,
  type ReadRawHandleFileOptions,
  readHandleFile,
  type WriteHandleFileOptions,
  writeHandleFile,
} from "../peer/handle-file.js";
export { type Offer, offer } from "../peer/offer.js";
export { type OpenedKinds, type OpenSharedOptions, openShared } from "../peer/open-shared.js";
export { rankFromEnvironment } from "../peer/rank-from-environment.js";
export { type ReceivedOffer, receiveOffer } from "../peer/receive-offer.js";
export { type Shareable, type Shared, type ShareOptions, share } from "../peer/share.js";
export type { SharedDocument } from "../wire/shared-document.js";

checkRuntime();
