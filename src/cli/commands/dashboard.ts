/** `cuda-ipc dashboard`: serves a page that shows live what `cuda-ipc top` shows. */
import type { Command } from "commander";
import { hasCode } from "../../base/errors.js";
import { spareHoles } from "../../gpu/transfer/lane.js";
import { HubWatch } from "../../watch/hub-watch.js";
import { MetricsSource } from "../../watch/metrics/metrics-source.js";
import { tokenIn } from "../../web/token-file.js";
import { WebAccess } from "../../web/web-access.js";
import { isLoopback, type WebAddress, webAddressText } from "../../web/web-address.js";
import { WebServer } from "../../web/web-server.js";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { dashboardHandler } from "../dashboard/dashboard-handler.js";
import { LiveFeed } from "../dashboard/live-feed.js";
import { ObjectActions } from "../dashboard/object-actions.js";
import { printErrors } from "../terminal/error-report.js";
import { metricsHandler, parseListen } from "./metrics.js";

interface DashboardOptions {
  readonly listen?: WebAddress;
  readonly tokenFile?: string;
  readonly socket?: string;
}

export function addDashboard(program: Command, context: CommandContext): void {
  program
    .command("dashboard")
    .description("serve a page that shows live who holds memory, until Ctrl-C")
    .option(
      "--listen <address>",
      "a port of this machine only, or HOST:PORT (default: any free port of 127.0.0.1)",
      parseListen,
    )
    .option(
      "--token-file <file>",
      "keep the token of the URL there, so that it stays the same; made if it is not there",
    )
    .addOption(socketOption())
    .addHelpText(
      "after",
      "\nExamples:\n  $ cuda-ipc dashboard --listen 8080\n" +
        "  $ cuda-ipc dashboard --listen 8080 --token-file token",
    )
    .action((options: DashboardOptions) => dashboard(options, context));
}

async function dashboard(options: DashboardOptions, context: CommandContext): Promise<void> {
  const { listen: address = { host: "127.0.0.1", port: 0 }, socket, tokenFile } = options;
  const { terminal, signal, interruption } = context;
  spareHoles();
  await using watch = new HubWatch({ socket, program: "cuda-ipc dashboard" });
  await using actions = new ObjectActions(socket);
  // A watch makes one snapshot at a time.
  await using scraped = new HubWatch({ socket, program: "cuda-ipc dashboard" });
  const access = new WebAccess(tokenFile === undefined ? undefined : await tokenIn(tokenFile));
  const feed = new LiveFeed(watch, signal);
  const metrics = metricsHandler(new MetricsSource(scraped, signal));
  await using server = await WebServer.listen({
    address,
    handler: dashboardHandler(access, feed, actions, metrics),
    signal,
    onError: (error) => {
      // The limits of the server end a page that does not read.
      if (!hasCode(error, "TIMEOUT") && !hasCode(error, "ABORTED")) printErrors(terminal, error);
    },
  });
  // So that the first page need not wait for it.
  await feed.begin();
  terminal.line(`The dashboard is at http://${webAddressText(server.address)}${access.firstPath}`);
  if (!isLoopback(address))
    terminal.note("warning: other machines can reach it, and its traffic is not encrypted");
  await interruption.received();
  signal.throwIfAborted();
}
