// Serves a hub, by taking over the one that runs where there is one, and says what it took over. Sends itself a signal at the line of
// its log that begins with the given words. Arguments: socket, milliseconds for each step of handing over, signal, words.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { takeOverHub } from "../../../../src/hub/taking-over.js";
import { argument, say } from "../../../support/actor-side.js";

const [socket, timeoutMs, signal, words] = [0, 1, 2, 3].map(argument) as [string, string, NodeJS.Signals | "", string];

function log(line: string): void {
  process.stderr.write(`${line}\n`);
  if (signal !== "" && line.startsWith(words)) process.kill(process.pid, signal);
}

process.umask(0o077);
try {
  const options = { socket, idleMs: Number.POSITIVE_INFINITY, handOverTimeoutMs: Number(timeoutMs), log };
  const { hub, predecessor } = await takeOverHub(options);
  process.once("SIGTERM", () => hub.stop());
  say({ predecessor });
  await hub.ended;
} catch (error) {
  say({ code: error instanceof CudaIpcError ? error.code : String(error) });
  process.exitCode = 1;
}
