/**
 * Loaded into a hub and its keeper before their own code. Makes them die or stop at a given system
 * call. Processes that they start load it too.
 */
import { readFileSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import type { SeamOrder, SeamRole } from "./orders.js";

const { CUDA_IPC_SEAM_FOLDER: folder = "", CUDA_IPC_SEAM_PROGRAM: program = "" } = process.env;
const role = /\/(hub|keeper)\/main\.js$/.exec(process.argv[1] ?? "")?.[1] as SeamRole | undefined;
process.execPath = program;
// WHY not in a gate: it would slow down every start of a gate, and no test needs it there.
if (role !== undefined) await listen(role);

async function listen(role: SeamRole): Promise<void> {
  const { seamFile, seamSocket } = await import("./orders.js");
  const { arm, cutNow, disarm } = await import("../matrix/fault-seam.js");
  const obey = (order: SeamOrder): unknown => {
    if (order.do === "disarm") return disarm();
    if (order.do === "cut") cutNow();
    else arm(order.action, order.at);
    return true;
  };
  const server = createServer((socket) => {
    socket.unref().on("error", () => {});
    createInterface({ input: socket }).on("line", (line) => {
      socket.write(`${JSON.stringify(obey(JSON.parse(line) as SeamOrder))}\n`);
    });
  });
  const address = seamSocket(folder, process.pid);
  await new Promise<void>((resolve) => server.listen(`${address}.new`, resolve));
  // WHY renamed: a test that finds the socket can connect at once.
  renameSync(`${address}.new`, address);
  server.unref();
  const path = seamFile(folder, role);
  const first = tryRead(path);
  if (first !== undefined) {
    rmSync(path);
    obey(JSON.parse(first) as SeamOrder);
  }
}

function tryRead(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
