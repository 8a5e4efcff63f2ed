/** Tries what the system can do, without any device. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { arch, release } from "node:os";
import { dirname, join } from "node:path";
import { CudaIpcError } from "../../base/errors.js";
import { packageVersion } from "../../base/own-package.js";
import { hubSocketPath } from "../../client/connect.js";
import { probeRuntimeFolder, systemProbes } from "../../client/probe-system.js";
import type { CommandContext } from "../command-context.js";
import { describeAbsentHub, tryJoinHub } from "../join-hub.js";
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
  checks.push(await check("hub", () => describeHub(context, socketPath)));
  return checks;
}

async function describeHub(context: CommandContext, socketPath: string): Promise<string> {
  await using hub = await tryJoinHub(context, "doctor");
  if (hub === undefined) {
    const { words, startable } = describeAbsentHub(undefined);
    if (startable) return `${words}; one starts when a process needs it`;
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot start a hub: ${words}`);
  }
  const { pid, version, objects } = await hub.status({ signal: context.signal });
  return (
    `process ${pid}, version ${version}, ` +
    `answers at ${socketPath} and keeps ${plural(objects, "object")}`
  );
}

/** Read from the manifest, because only one layer may import koffi. */
function koffiVersion(): string {
  const main = createRequire(import.meta.url).resolve("koffi");
  const manifest: unknown = JSON.parse(readFileSync(join(dirname(main), "package.json"), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
}
