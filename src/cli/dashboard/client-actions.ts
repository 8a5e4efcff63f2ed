/** What a page may do with a client: end its session on the hub. */
import { CudaIpcError } from "../../base/errors.js";
import type { HubWatch } from "../../watch/hub-watch.js";
import { textAnswer, type WebAnswer } from "../../web/web-messages.js";

export async function disconnectClient(
  watch: Pick<HubWatch, "disconnect">,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<WebAnswer> {
  const session = Number(query.get("session") ?? "");
  if (!Number.isSafeInteger(session) || session < 1)
    return textAnswer(400, "Name a client by its session.");
  try {
    await watch.disconnect(session, { signal });
    return textAnswer(200, "Disconnected.");
  } catch (error) {
    if (signal.aborted || !(error instanceof CudaIpcError)) throw error;
    return textAnswer(409, `${error.code}: ${error.message}`);
  }
}
