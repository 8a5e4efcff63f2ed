// Watches a hub at an interval, as `cuda-ipc top` does. bench/hub/watching.ts gives the orders.
import { setTimeout as sleep } from "node:timers/promises";
import { HubWatch } from "../../src/watch/hub-watch.js";
import { serve } from "../hub/helper-side.js";

let looks = 0;
let trouble: string | undefined;

async function watch(socket: string, intervalMs: number): Promise<void> {
  await using hub = new HubWatch({ socket, program: "watcher" });
  for (;;) {
    const { hub: found } = await hub.snapshot();
    trouble = found.reason;
    looks += 1;
    await sleep(intervalMs);
  }
}

serve({
  begin({ socket, intervalMs }: { socket: string; intervalMs: number }): void {
    void watch(socket, intervalMs);
  },

  /** How many snapshots there were. Throws if the latest one did not reach the hub. */
  looks(): number {
    if (trouble !== undefined) throw new Error(trouble);
    return looks;
  },
});
