/** What services and their clients publish on node:diagnostics_channel. */
import { type OperationOutcome, operation } from "../base/diagnostics.js";
import type { ReplyOptions } from "./reply-slot.js";
import type { ServiceMessage, ServiceRequest } from "./service-message.js";

/** A client sends a request and waits for its reply. */
export interface RequestMessage extends OperationOutcome<ServiceMessage> {
  /** The name of the service. */
  readonly name: string;
}

/** A worker handles a request. */
export interface HandleMessage extends OperationOutcome<ReplyOptions | undefined> {
  /** The name of the service. */
  readonly name: string;
  readonly request: ServiceRequest;
}

export const operations = {
  request: operation<RequestMessage>("request"),
  handle: operation<HandleMessage>("handle"),
};
