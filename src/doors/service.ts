/** `cuda-ipc/service`: requests and their replies, over channels of a hub. */
import { checkRuntime } from "../base/check-runtime.js";

export type { FillRequest } from "../service/client-call.js";
export type { ReplyOptions, ReplySlot } from "../service/reply-slot.js";
export { type Service, type ServiceHandler, serve } from "../service/service.js";
export {
  connectService,
  type ServiceClient,
} from "../service/service-client.js";
export type { ServiceMessage, ServiceRequest, SlotToFill } from "../service/service-message.js";
export type {
  ConnectServiceOptions,
  MessageOptions,
  RequestOptions,
  ServeOptions,
  WorkerUsers,
} from "../service/service-options.js";

checkRuntime();
