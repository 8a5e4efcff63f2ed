/** The map of memory in a real browser: a cell for each object, in proportion, by keyboard too. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { CliRig, eventually } from "./cli-rig.js";
import { DashboardPage } from "./dashboard-page.js";
import { withoutBrowser as skip } from "./dashboard-rig.js";

const KiB = 1024;

describe("the map of memory", { skip }, () => {
  it("has cells in proportion to sizes, which open the object by mouse and by keyboard", async () => {
    await using cli = await CliRig.open();
    const hub = await connect({ socket: cli.socket, device: "host", program: "one.py" });
    const other = await connect({ socket: cli.socket, device: "host", program: "other.py" });
    for (const [name, kib] of [
      ["large", 512],
      ["middle", 256],
    ] as const)
      await (await hub.create(name, { dtype: "uint8", shape: [kib * KiB] })).publish();
    await (await other.create("foreign", { dtype: "uint8", shape: [256 * KiB] })).publish();
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const cell = (name: string) => page.getByRole("button", { name: `${name}, ` });
    const area = async (name: string) => {
      const box = await cell(name).boundingBox();
      return (box?.width ?? 0) * (box?.height ?? 0);
    };
    await cell("foreign").waitFor();
    const large = await area("large");
    for (const name of ["middle", "foreign"]) {
      const ratio = large / (await area(name));
      assert.ok(Math.abs(ratio - 2) < 0.05, `${name}: ${ratio}`);
    }
    assert.match(
      (await cell("foreign").getAttribute("aria-label")) ?? "",
      /256 KiB, held by other/,
    );
    const legend = await page.locator(".legend").first().textContent();
    assert.match(legend ?? "", /one\.py \d+: 768 KiB in 2 objects.*other\.py \d+: 256 KiB in 1/);
    await page
      .locator(".shares")
      .getByText(/^free /)
      .waitFor();
    await cell("middle").hover();
    await page
      .locator(".pointed")
      .getByText(/^middle, 256 KiB, held by one\.py/)
      .waitFor();
    await cell("large").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("End");
    await page
      .locator(".pointed")
      .getByText(/^foreign, /)
      .waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").getByText("process").first().waitFor();
    assert.equal(await page.locator("#object-name").textContent(), "foreign");
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 390, height: 800 });
    const fits =
      "[...document.querySelectorAll('.cell')].every((c) => c.getBoundingClientRect().right < 391)";
    await eventually("all cells fit", async () => (await page.evaluate(fits)) || undefined);
    assert.deepEqual(problems, []);
    await other.close();
    await cell("foreign").waitFor({ state: "detached" });
    await hub.close();
  });

  it("joins the objects that would be too small, and lists them when clicked", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    const sizes = [4096 * KiB, ...Array.from({ length: 500 }, () => 4 * KiB)];
    const made = await Promise.all(
      sizes.map((size, i) => hub.create(`o${i}`, { dtype: "uint8", shape: [size] })),
    );
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const joined = page.getByRole("button", { name: "500 smaller, " });
    await joined.waitFor();
    assert.equal(await page.locator(".cell").count(), 2);
    await page.keyboard.press("2");
    await joined.click();
    await page.locator("#rows").getByText("4 KiB", { exact: true }).first().waitFor();
    assert.notEqual(await page.locator("#rows td:not(.space)").first().textContent(), "o0");
    assert.deepEqual(problems, []);
    for (const array of made) array.close();
    await hub.close();
  });
});
