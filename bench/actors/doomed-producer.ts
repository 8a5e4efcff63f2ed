// A producer that shares arrays, one that it does not publish, and a timeline; to be killed by bench/hub/producer-killed.ts.
import { connect } from "../../src/index.js";
import { serve } from "../hub/helper-side.js";

serve({
  async share(order: {
    socket: string;
    arrays: readonly string[];
    unpublished: string;
    timeline: string;
    bytes: number;
  }) {
    const hub = await connect({ socket: order.socket, device: "host", start: false });
    const options = { dtype: "uint8", shape: [order.bytes] } as const;
    for (const name of order.arrays) {
      const array = await hub.create(name, options);
      // WHY: memory that was never written takes no room, and there would be nothing to give back.
      await array.fill(7);
      await array.publish();
    }
    await hub.create(order.unpublished, options);
    // WHY last: where leases end in their order, those who wait for it have the longest time to wait.
    await hub.createTimeline(order.timeline);
  },
});
