// Joins a group, does the given steps, and prints the result of each. Arguments: path, rank, size,
// then steps: `told` (waits for a line), `barrier`, `gather`, `leave`, `exit`.
import { Group } from "../../../../src/doors/peer.js";
import { CudaIpcError } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [path, rank, size] = [argument(0), Number(argument(1)), Number(argument(2))];
let group: Group | undefined;

const steps: Record<string, () => unknown> = {
  join: async () => {
    group = await Group.join({ path, rank, size });
  },
  told,
  barrier: () => group?.barrier(),
  gather: () => group?.allGather(`${rank} of ${size}`),
  leave: () => group?.close(),
  exit: () => process.exit(0),
};

say("here");
for (const step of ["join", ...process.argv.slice(5)]) {
  if (step !== "told") say({ begins: step });
  try {
    const value = await steps[step]?.();
    if (step !== "told") say({ step, value: value ?? null });
  } catch (error) {
    say({ step, code: error instanceof CudaIpcError ? error.code : "", message: String(error) });
  }
}
