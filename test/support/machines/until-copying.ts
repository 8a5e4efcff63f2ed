import { Deadline } from "../../../src/base/deadline.js";
import { askBridge } from "../../../src/client/connection/bridge-call.js";
import { until } from "../until.js";
import type { TestMachine } from "./test-machine.js";

/** For the environment of bridges: they copy about 80 MB a second, so a test comes between. */
export const slowCopies = { UCX_TCP_TX_SEG_SIZE: "512", UCX_ZCOPY_THRESH: "inf" } as const;

/**
 * Until the machine's bridge has copied a part of an array. WHY not by the command line: while it
 * starts, a whole array is copied.
 */
export async function untilCopying({ hub }: Pick<TestMachine, "hub">): Promise<void> {
  await until("a part of it is copied", async () => {
    const { fetches } = await askBridge(hub.socket, new Deadline("ask a bridge", {}, 10_000));
    return (fetches[0]?.doneBytes ?? 0) > 0;
  });
}
