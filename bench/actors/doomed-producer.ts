// A producer of arrays, an unpublished array and a timeline. bench/hub/producer-killed.ts kills it.
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
      // Unwritten memory takes no room, so there would be nothing to free.
      await array.fill(7);
      await array.publish();
    }
    await hub.create(order.unpublished, options);
    // Created last, because leases end in order, so this is the longest wait.
    await hub.createTimeline(order.timeline);
  },
});
