/** Tries what the system can do, without any device. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { arch, release } from "node:os";
import { dirname, join } from "node:path";
import { CudaIpcError } from "../../base/errors.js";
import { packageVersion } from "../../base/own-package.js";
import { hubSocketPath } from "../../client/connect.js";
import { probeRuntimeFolder, serviceOf, systemProbes } from "../../client/probe-system.js";
import type { CommandContext } from "../command-context.js";
import { describeAbsentHub, type HubStatus, tryJoinHub } from "../join-hub.js";
import { plural } from "../terminal/words.js";
import { type Check, check, fact } from "./check.js";

export async function checkSystem(context: CommandContext): Promise<Check[]> {
  const socketPath = hubSocketPath(undefined);
  const checks = [
    fact(
      "versions",
      `cuda-ipc ${packageVersion()}, Node ${process.versions.node}, koffi ${koffiVersion()}`,
    ),
    fact("kernel", `Linux ${release()}, ${arch()}`),
  ];
  for (const { name, run } of systemProbes) checks.push(await check(name, run));
  checks.push(
    await check(
      "runtime folder",
      () => `${dirname(socketPath)}: ${probeRuntimeFolder(socketPath)}`,
    ),
  );
  let notes: ReturnType<typeof notesOnService> = {};
  const hub = await check("hub", async () => {
    const { words, status } = await describeHub(context, socketPath);
    if (status !== undefined) notes = notesOnService(status.keeper, serviceOf(status.pid));
    return words;
  });
  return [...checks, { ...hub, ...notes }];
}

/** @param keeper null if the hub is a service of its own, which has none */
export function notesOnService(
  keeper: HubStatus["keeper"],
  unit: string | undefined,
): Pick<Check, "notes" | "toDo"> {
  if (keeper === null || unit === undefined) return {};
  return {
    notes: [`it ends with ${unit}, which started it`],
    toDo: "run the hub as a service of its own (deploy/) if others use it",
  };
}

async function describeHub(
  context: CommandContext,
  socketPath: string,
): Promise<{ words: string; status?: HubStatus }> {
  await using hub = await tryJoinHub(context, "doctor");
  if (hub === undefined) {
    const { words, startable } = describeAbsentHub(undefined);
    if (startable) return { words: `${words}; one starts when a process needs it` };
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot start a hub: ${words}`);
  }
  const status = await hub.status({ signal: context.signal });
  const { pid, version, objects } = status;
  const words =
    `process ${pid}, version ${version}, ` +
    `answers at ${socketPath} and keeps ${plural(objects, "object")}`;
  return { words, status };
}

/** Read from the manifest, because only one layer may import koffi. */
function koffiVersion(): string {
  const main = createRequire(import.meta.url).resolve("koffi");
  const manifest: unknown = JSON.parse(readFileSync(join(dirname(main), "package.json"), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
}
