/** `cuda-ipc dashboard`: serves a page that shows live what `cuda-ipc top` shows. */
import type { Command } from "commander";
import { hasCode } from "../../base/errors.js";
import { HubWatch } from "../../watch/hub-watch.js";
import { WebAccess } from "../../web/web-access.js";
import { isLoopback, type WebAddress, webAddressText } from "../../web/web-address.js";
import { WebServer } from "../../web/web-server.js";
import { socketOption } from "../arguments.js";
import type { CommandContext } from "../command-context.js";
import { dashboardHandler } from "../dashboard/dashboard-handler.js";
import { LiveFeed } from "../dashboard/live-feed.js";
import { ObjectActions } from "../dashboard/object-actions.js";
import { printErrors } from "../terminal/error-report.js";
import { parseListen } from "./metrics.js";

interface DashboardOptions {
  readonly listen?: WebAddress;
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
    .addOption(socketOption())
    .addHelpText("after", "\nExample:\n  $ cuda-ipc dashboard --listen 8080")
    .action((options: DashboardOptions) => dashboard(options, context));
}

async function dashboard(options: DashboardOptions, context: CommandContext): Promise<void> {
  const { listen: address = { host: "127.0.0.1", port: 0 }, socket } = options;
  const { terminal, signal, interruption } = context;
  await using watch = new HubWatch({ socket, program: "cuda-ipc dashboard" });
  await using actions = new ObjectActions(socket);
  const access = new WebAccess();
  await using server = await WebServer.listen({
    address,
    handler: dashboardHandler(access, new LiveFeed(watch, signal), actions),
    signal,
    onError: (error) => {
      // The limits of the server end a page that does not read.
      if (!hasCode(error, "TIMEOUT") && !hasCode(error, "ABORTED")) printErrors(terminal, error);
    },
  });
  terminal.line(`The dashboard is at http://${webAddressText(server.address)}${access.firstPath}`);
  if (!isLoopback(address))
    terminal.note("warning: other machines can reach it, and its traffic is not encrypted");
  await interruption.received();
  signal.throwIfAborted();
}
