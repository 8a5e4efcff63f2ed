// Serves the metrics of a hub, as `cuda-ipc metrics` does. bench/hub/watching.ts gives the orders.
import { metricsHandler } from "../../src/cli/commands/metrics.js";
import { HubWatch } from "../../src/watch/hub-watch.js";
import { MetricsSource } from "../../src/watch/metrics/metrics-source.js";
import { webAddressText } from "../../src/web/web-address.js";
import { WebServer } from "../../src/web/web-server.js";
import { serve } from "../hub/helper-side.js";

serve({
  /** Returns the URL. */
  async begin({ socket }: { socket: string }): Promise<string> {
    const watch = new HubWatch({ socket, program: "exporter" });
    const source = new MetricsSource(watch, new AbortController().signal);
    const address = { host: "127.0.0.1", port: 0 };
    const server = await WebServer.listen({ address, handler: metricsHandler(source) });
    return `http://${webAddressText(server.address)}/metrics`;
  },
});
