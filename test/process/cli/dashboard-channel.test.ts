/** The dashboard's pages of a channel and a device, in a real browser: who is behind, over time. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { killHub } from "../../support/test-folder.js";
import { CliRig, eventually } from "./cli-rig.js";
import { launch, problemsOf, served, withoutBrowser as skip } from "./dashboard-rig.js";

/** A channel with four slots. One reader takes every message, and the other one none. */
async function channelWithTwoReaders(socket: string) {
  const join = (program: string) => connect({ socket, device: "host", program });
  const hubs = await Promise.all(["camera", "<b>fast</b>", "slow"].map(join));
  const [writing, reading, waiting] = hubs;
  const shape = { dtype: "uint8", shape: [8], slots: 4, whenFull: "drop-newest" } as const;
  const writer = await writing?.createChannel("frames", shape);
  const fast = await reading?.openChannel("frames");
  const slow = await waiting?.openChannel("frames");
  if (!writer || !fast || !slow) throw new Error("there are three hubs");
  const write = async () => {
    using slot = await writer.loan();
    await slot.commit();
    (await fast.next({ timeoutMs: 0 }).catch(() => undefined))?.release();
  };
  return {
    write,
    async close() {
      for (const side of [fast, slow, writer]) side.close();
      for (const hub of hubs) await hub.close();
    },
  };
}

describe("the dashboard's page of a channel", () => {
  it("shows which reader is behind, its slots and its lag over time", { skip }, async () => {
    await using rig = await CliRig.open();
    const { write, close } = await channelWithTwoReaders(rig.socket);
    for (let i = 0; i < 3; i += 1) await write();
    const { url, child, outcome } = await served(rig);
    const browser = await launch();
    try {
      const page = await browser.newPage();
      const problems = problemsOf(page);
      await page.goto(url);
      await page.getByRole("button", { name: "Channels 1" }).waitFor();
      await page.keyboard.press("2");
      await page.locator("#rows tr", { hasText: "frames" }).focus();
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog", { name: "frames" });
      const slowest = dialog.locator("tr.slowest");
      await slowest.getByRole("link", { name: `slow ${process.pid}` }).waitFor();
      assert.match((await slowest.textContent()) ?? "", /^reader 1slow \d+3/);
      const other = dialog.getByRole("row", { name: "reader 0" });
      assert.match((await other.textContent()) ?? "", /^reader 0<b>fast<\/b> \d+0/);
      await dialog.getByRole("img", { name: `slow ${process.pid} needs 3 of 4` }).waitFor();
      await dialog.getByText("drop-newest: the writer drops the new message").waitFor();
      const lag = dialog.getByRole("figure", { name: "Lag of readers" });
      const lines = () =>
        lag.locator("path.line").evaluateAll((all) => all.map((one) => one.getAttribute("d")));
      assert.deepEqual(
        (await lines()).map((d) => d !== ""),
        [true, true],
      );
      const before = String(await lines());
      await write();
      await lag.locator("b", { hasText: /^4$/ }).waitFor();
      assert.notEqual(String(await lines()), before, "the chart goes on");
      await lag.focus();
      await page.keyboard.press("Home");
      await lag.getByText(/^\d+ s ago$/).waitFor();
      await page.setViewportSize({ width: 360, height: 700 });
      const width = await page.evaluate("document.getElementById('detail').scrollWidth");
      assert.ok(Number(width) <= 360, `${width} px`);
      await page.reload();
      await slowest.waitFor();
      assert.ok(((await lag.locator("path.line").first().getAttribute("d")) ?? "").length > 20);
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
      await eventually("the URL is the list's", () => !page.url().includes("#") || undefined);
      assert.deepEqual(problems, []);
    } finally {
      await browser.close();
      await close();
      child.kill("SIGTERM");
      await outcome;
    }
  });

  it("says that the hub is gone, and that the channel has ended", { skip }, async () => {
    await using rig = await CliRig.open();
    const { close } = await channelWithTwoReaders(rig.socket);
    const { url, child, outcome } = await served(rig);
    const browser = await launch();
    try {
      const page = await browser.newPage();
      await page.goto(url);
      await page.getByRole("button", { name: "Channels 1" }).click();
      await page.getByText("frames", { exact: true }).click();
      const dialog = page.getByRole("dialog", { name: "frames" });
      await dialog.getByText("4 slots").waitFor();
      await close();
      await dialog.getByText("It is no more.").waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("5");
      await page.locator("#rows tr", { hasText: "host" }).click();
      const host = page.getByRole("dialog", { name: "host" });
      await host.getByRole("figure", { name: "Held by objects" }).waitFor();
      await killHub(rig.folder);
      await host.getByText("The hub does not answer. Shown is what was known.").waitFor();
    } finally {
      await browser.close();
      child.kill("SIGTERM");
      await outcome;
    }
  });
});
