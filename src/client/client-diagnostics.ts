/** The messages that a client of the hub publishes on node:diagnostics_channel. */
import { type OperationOutcome, operation, point } from "../base/diagnostics.js";
import type { CudaIpcError } from "../base/errors.js";
import type { ChannelObserver } from "../channel/channel-observer.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { ImportedTimeline, Timeline } from "../gpu/order/timeline.js";
import type { Hub } from "./hub.js";
import type { SharedArray } from "./objects/shared-array.js";
import type { SharedBundle } from "./objects/shared-bundle.js";

/** A client connects to a hub. */
export interface ConnectMessage extends OperationOutcome<Hub> {
  readonly socketPath: string;
}

/** An object is allocated and gets its name. */
export interface CreateMessage
  extends OperationOutcome<SharedArray | SharedBundle | Timeline | ChannelWriter> {
  readonly name: string;
  readonly kind: "array" | "bundle" | "timeline" | "channel";
  readonly byteLength: number;
}

/** An object becomes visible to `open`. */
export interface PublishMessage extends OperationOutcome<void> {
  readonly name: string;
  /** The hub's number of the object. */
  readonly object: number;
}

/** An object is opened by name, which may wait until it is published. */
export interface OpenMessage
  extends OperationOutcome<
    SharedArray | SharedBundle | ImportedTimeline | ChannelReader | ChannelWriter | ChannelObserver
  > {
  readonly name: string;
  readonly access: "read" | "read-write";
  /** Of a channel only. */
  readonly role?: "reader" | "writer" | "observer" | undefined;
}

/** The connection to the hub ended. The client looks for the next hub. */
export interface DisconnectMessage {
  readonly socketPath: string;
  readonly reason: CudaIpcError;
}

/** The client has come back to a hub. */
export interface ReconnectMessage {
  readonly socketPath: string;
  /** False if the hub lost something that this client holds. */
  readonly resumed: boolean;
}

/** The client looks for no hub any more. */
export interface HubLostMessage {
  readonly socketPath: string;
  readonly reason: CudaIpcError;
}

export const operations = {
  connect: operation<ConnectMessage>("connect"),
  create: operation<CreateMessage>("create"),
  publish: operation<PublishMessage>("publish"),
  open: operation<OpenMessage>("open"),
};

export const points = {
  disconnect: point<DisconnectMessage>("disconnect"),
  reconnect: point<ReconnectMessage>("reconnect"),
  hubLost: point<HubLostMessage>("hub-lost"),
};
