/** What a device can do, tried on the device itself. */
import { CudaIpcError } from "../../base/errors.js";
import { connect } from "../../client/connect.js";
import { Device } from "../../gpu/device.js";
import { deviceProbes } from "../../gpu/probe-device.js";
import { HubServer } from "../../hub/hub-server.js";
import { withTemporarySocket } from "../temporary-folder.js";
import { sizeWords } from "../words.js";
import { type Check, check, fact, failedCheck } from "./check.js";
import { gpuSharingChecks } from "./gpu-sharing-checks.js";
import type { Surroundings } from "./surroundings.js";

export interface DeviceReport {
  /** `host` or `cuda:N`. */
  readonly name: string;
  readonly model?: string;
  readonly uuid?: string;
  readonly checks: readonly Check[];
}

export async function checkDevice(name: string, surroundings: Surroundings): Promise<DeviceReport> {
  let device: Device;
  try {
    device = Device.open(name);
  } catch (error) {
    return { name, checks: [failedCheck("device", error)] };
  }
  using open = device;
  const checks: Check[] = [...deviceFacts(open), await check("memory", () => freeMemory(open))];
  for (const { name: probeName, run } of deviceProbes) checks.push(await check(probeName, () => run(open)));
  checks.push(await check("by name", () => probeByName(open.name)), ...attributeFacts(open, surroundings));
  return { name: open.name, model: open.facts.name, uuid: open.uuid, checks };
}

/** The GPUs that this process sees; throws why it sees none. */
export function listGpus(): string[] {
  using first = Device.open("cuda:0");
  return Array.from({ length: first.driver.deviceCount() }, (_, ordinal) => `cuda:${ordinal}`);
}

function deviceFacts({ facts }: Device): Check[] {
  const { uuid, driverVersion, computeCapability, granularityBytes } = facts;
  if (computeCapability === undefined) return [];
  const detail = `${uuid}, compute capability ${computeCapability}, ${driverVersion}, pages of ${sizeWords(granularityBytes)}`;
  return [fact("device", detail)];
}

function freeMemory(device: Device): string {
  const { freeBytes, totalBytes } = device.memoryInfo();
  return `${sizeWords(freeBytes)} of ${sizeWords(totalBytes)} free`;
}

const ELEMENTS = 65_536;

/** Shares an array by name through a hub of its own, so that the user's hub is left alone, and opens it again. */
function probeByName(device: string): Promise<string> {
  return withTemporarySocket("cuda-ipc-doctor-", async (socket) => {
    const hubServer = HubServer.start({ socket });
    try {
      return await shareByName(socket, device);
    } finally {
      hubServer.stop();
    }
  });
}

async function shareByName(socket: string, device: string): Promise<string> {
  await using hub = await connect({ socket, device, start: false });
  using made = await hub.create("probe", { dtype: "int32", shape: [ELEMENTS] });
  await made.write(Int32Array.from({ length: ELEMENTS }, (_, i) => i * 3));
  await made.publish();
  using opened = await hub.open("probe", { wait: false });
  const values = (await opened.read()) as Int32Array;
  const wrong = values.findIndex((value, i) => value !== i * 3);
  if (wrong < 0) return `shared an array of ${sizeWords(made.byteLength)} through a hub, opened and verified it`;
  const found = `element ${wrong} is ${values[wrong]}, wanted ${wrong * 3}`;
  throw new CudaIpcError("VERIFICATION_FAILED", `An array that was opened by name is not what was written: ${found}`);
}

/** What the driver says of itself and what nothing here tries. */
function attributeFacts({ facts }: Device, surroundings: Surroundings): Check[] {
  if (facts.computeCapability === undefined) return [];
  const says = (attribute: string) => {
    const value = facts.attributes[attribute];
    return `${value === undefined ? "unknown to this driver" : value === 0 ? "no" : "yes"} (${attribute})`;
  };
  return [
    fact("legacy events", `supported by the device: ${says("IPC_EVENT_SUPPORTED")}; not tried`),
    fact("memory pools", `supported by the device: ${says("MEMORY_POOLS_SUPPORTED")}; not tried`),
    ...gpuSharingChecks(facts, surroundings),
  ];
}
