// Reads from a dashboard what an open page of a channel reads: events, and with each one the
// figures of the first channel. Scrapes its metrics as often. bench/hub/watching.ts gives the
// orders.
import { serve } from "../hub/helper-side.js";

let details = 0;
let scrapes = 0;

async function read(url: string): Promise<void> {
  const { origin, searchParams } = new URL(url);
  const entered = await fetch(url);
  const folder = /url=(.*)$/.exec(entered.headers.get("refresh") ?? "")?.[1] ?? "";
  const headers = { cookie: entered.headers.get("set-cookie")?.split(";")[0] ?? "" };
  const bearer = { authorization: `Bearer ${searchParams.get("token")}` };
  const events = await fetch(`${origin}${folder}events`, { headers });
  let text = "";
  for await (const piece of events.body ?? []) {
    text += Buffer.from(piece).toString();
    const end = text.lastIndexOf("\n\n");
    if (end < 0) continue;
    const id = /"channels":\[\{"id":(\d+)/.exec(text)?.[1];
    text = text.slice(end + 2);
    const scraped = await fetch(`${origin}/metrics`, { headers: bearer });
    if ((await scraped.text()).includes("cuda_ipc_up 1")) scrapes += 1;
    if (id === undefined) continue;
    const page = await fetch(`${origin}${folder}detail?kind=channel&id=${id}`, { headers });
    await page.text();
    if (page.ok) details += 1;
  }
}

serve({
  begin({ url }: { url: string }): void {
    void read(url);
  },

  /** How many pages of a channel and how many scrapes were read. */
  counts(): { details: number; scrapes: number } {
    return { details, scrapes };
  },
});
