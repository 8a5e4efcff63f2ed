/** Tries what a device can do. */
import { uuidOf } from "../../base/device-reference.js";
import { CudaIpcError } from "../../base/errors.js";
import { connect } from "../../client/connect.js";
import { Device } from "../../gpu/device.js";
import { deviceProbes } from "../../gpu/probes/probe-device.js";
import { probeCompiler, probePeerAccess } from "../../gpu/probes/probe-mechanisms.js";
import { HubServer } from "../../hub/server/hub-server.js";
import { withTemporarySocket } from "../temporary-folder.js";
import { sizeWords } from "../terminal/words.js";
import { type Check, check, checkMechanism, fact, failedCheck } from "./check.js";
import { gpuSharingChecks } from "./gpu-sharing-checks.js";
import { PROCESS_PROBE_TIMEOUT_MS, processProbes } from "./process-probes.js";
import type { Surroundings } from "./surroundings.js";

export interface DeviceReport {
  /** `host` or `cuda:N`. */
  readonly name: string;
  readonly model?: string;
  readonly uuid?: string;
  readonly checks: readonly Check[];
}

/** Runs all probes, also after failures. @param signal ends it after the current probe */
export async function checkDevice(
  name: string,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<DeviceReport> {
  let device: Device;
  try {
    device = Device.open(name);
  } catch (error) {
    return { name, checks: [failedCheck("device", error)] };
  }
  using open = device;
  const checks: Check[] = [...deviceFacts(open), await check("memory", () => freeMemory(open))];
  for (const probe of probesOf(open, surroundings, signal)) {
    signal.throwIfAborted();
    checks.push(await probe());
  }
  checks.push(
    ...(open.facts.computeCapability === undefined
      ? []
      : gpuSharingChecks(open.facts, surroundings)),
  );
  return { name: open.name, model: open.facts.name, uuid: open.uuid, checks };
}

/** The probes in order. A `check` must pass on every device, a `checkMechanism` is optional. */
function probesOf(
  device: Device,
  surroundings: Surroundings,
  signal: AbortSignal,
): (() => Promise<Check>)[] {
  const options = { signal, timeoutMs: PROCESS_PROBE_TIMEOUT_MS };
  return [
    ...deviceProbes.map(
      ({ name, optional, run }) =>
        () =>
          (optional ? checkMechanism : check)(name, () => run(device)),
    ),
    ...processProbes.map(({ name, attribute, run }) => () => {
      const lacking = attribute !== undefined && device.facts.attributes[attribute] === 0;
      return checkMechanism(name, () => run(device, options), lacking);
    }),
    ...peerProbes(device),
    () => checkMechanism("NVRTC", () => findCompiler(device, surroundings)),
    () => check("by name", () => probeByName(device.name)),
  ];
}

/** One probe for each other GPU. */
function peerProbes(device: Device): (() => Promise<Check>)[] {
  const others = Array.from(
    { length: device.driver.deviceCount() },
    (_, ordinal) => ordinal,
  ).filter((ordinal) => ordinal !== device.ordinal);
  if (others.length === 0) return [async () => fact("peer access", "there is no other GPU")];
  return others.map((ordinal) => () => {
    return checkMechanism("peer access", async () => {
      using other = Device.open(`cuda:${ordinal}`);
      return await probePeerAccess(device, other);
    });
  });
}

/** Finds the path of the library in the mappings of this process. */
async function findCompiler(device: Device, surroundings: Surroundings): Promise<string> {
  const found = await probeCompiler(device);
  const library = /\S*\/libnvrtc\.so\S*/.exec(surroundings.text("/proc/self/maps") ?? "")?.[0];
  return library === undefined ? found : `${found} with ${library}`;
}

/** Lists the GPUs that this process sees. Throws the reason if there are none. */
export function listGpus(): string[] {
  using first = Device.open("cuda:0");
  return Array.from({ length: first.driver.deviceCount() }, (_, ordinal) => `cuda:${ordinal}`);
}

function deviceFacts({ facts }: Device): Check[] {
  const { reference, driverVersion, computeCapability, granularityBytes } = facts;
  if (computeCapability === undefined) return [];
  const detail =
    `${uuidOf(reference)}, compute capability ${computeCapability}, ${driverVersion}, ` +
    `pages of ${sizeWords(granularityBytes)}`;
  return [fact("device", detail)];
}

function freeMemory(device: Device): string {
  const { freeBytes, totalBytes } = device.memoryInfo();
  return `${sizeWords(freeBytes)} of ${sizeWords(totalBytes)} free`;
}

const ELEMENTS = 65_536;

/** Shares an array by name and opens it, through a hub of its own. */
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
  if (wrong < 0)
    return `shared an array of ${sizeWords(made.byteLength)} through a hub, opened and verified it`;
  const found = `element ${wrong} is ${values[wrong]}, expected ${wrong * 3}`;
  throw new CudaIpcError(
    "VERIFICATION_FAILED",
    `An array opened by name does not hold what was written: ${found}`,
  );
}
