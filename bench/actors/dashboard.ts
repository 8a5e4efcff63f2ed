// Serves the dashboard of a hub, as `cuda-ipc dashboard` does. bench/hub/watching.ts gives the
// orders.
import { metricsHandler } from "../../src/cli/commands/metrics.js";
import { dashboardHandler } from "../../src/cli/dashboard/dashboard-handler.js";
import { LiveFeed } from "../../src/cli/dashboard/live-feed.js";
import { ObjectActions } from "../../src/cli/dashboard/object-actions.js";
import { HubWatch } from "../../src/watch/hub-watch.js";
import { MetricsSource } from "../../src/watch/metrics/metrics-source.js";
import { WebAccess } from "../../src/web/web-access.js";
import { webAddressText } from "../../src/web/web-address.js";
import { WebServer } from "../../src/web/web-server.js";
import { serve } from "../hub/helper-side.js";

serve({
  /** Returns the URL with the token. */
  async begin({ socket }: { socket: string }): Promise<string> {
    const { signal } = new AbortController();
    const watch = () => new HubWatch({ socket, program: "dashboard" });
    const access = new WebAccess();
    const metrics = metricsHandler(new MetricsSource(watch(), signal));
    const feed = new LiveFeed(watch(), signal);
    const handler = dashboardHandler(access, feed, new ObjectActions(socket), metrics);
    const server = await WebServer.listen({ address: { host: "127.0.0.1", port: 0 }, handler });
    await feed.begin();
    return `http://${webAddressText(server.address)}${access.firstPath}`;
  },
});
