/** The types of what the hub tells, by the names that the commands use for them. */
import type { Hub } from "../client/hub.js";
import type { Inspection } from "../client/hub-options.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";

export type ObjectSummary = Inspection["object"];
export type Descriptor = ObjectSummary["descriptor"];
export type HubStatus = Awaited<ReturnType<Hub["status"]>>;
export type Mechanism = DeviceBuffer["mechanism"];
