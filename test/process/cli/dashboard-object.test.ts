/** The page of one object in a real browser: its picture, its histogram, and what has none. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Page } from "playwright-core";
import { specialColours } from "../../../src/array/picture-pixels.js";
import { connect } from "../../../src/client/connect.js";
import { CliRig, eventually } from "./cli-rig.js";
import { DashboardPage } from "./dashboard-page.js";
import { withoutBrowser as skip } from "./dashboard-rig.js";

const EVIL = "<img src=x onerror=alert(1)>\u001b[2J";

async function openObject(page: Page, name: string) {
  await page.locator("#rows").getByText(name, { exact: true }).click();
  return page.getByRole("dialog");
}

const pixel = (x: number, y: number) =>
  `[...document.getElementById("picture").getContext("2d").getImageData(${x}, ${y}, 1, 1).data]`;

/** The heights of the histogram's bars, in percent of the highest. The lowest values come first. */
async function barHeights(page: Page): Promise<number[]> {
  return (await page.evaluate(
    `[...document.querySelectorAll("#histogram .count")].map((bar) => bar.height.baseVal.value)`,
  )) as number[];
}

/** Red, green, blue and alpha of a pixel of the picture. */
async function pixelAt(page: Page, x: number, y: number): Promise<number[]> {
  return (await page.evaluate(pixel(x, y))) as number[];
}

describe("the page of an object", { skip }, () => {
  it("shows colours, and the slice that is chosen by keyboard", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    const batch = new Uint8Array(3 * 8 * 10 * 3).fill(7);
    batch.fill(200, 2 * 8 * 10 * 3);
    using _ = await hub.put("batch", batch, { shape: [3, 8, 10, 3] });
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const dialog = await openObject(page, "batch");
    const words = "Shows every element, as red, green and blue, from 0 (dark) to 255 (bright).";
    await dialog.getByRole("img", { name: words }).waitFor();
    assert.deepEqual(await pixelAt(page, 9, 7), [7, 7, 7, 255]);
    const slider = dialog.getByRole("slider", { name: "Axis 0" });
    const shown = page.waitForResponse((answer) => answer.url().includes("at=2"));
    await slider.press("End");
    await shown;
    await dialog.getByText("2 of 3").waitFor();
    await eventually("the slice is shown", async () => {
      const [red] = await pixelAt(page, 0, 0);
      return red === 200 || undefined;
    });
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("shows NaN and infinities as such, counted, and a histogram of the rest", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    const values = Float32Array.from({ length: 400 }, (_, i) => (i < 100 ? 0 : i / 400));
    values.set([Number.NaN, Number.NaN, Infinity, -Infinity]);
    using _ = await hub.put("noisy", values, { shape: [20, 20] });
    using __ = await hub.put("nothing", new Float32Array(64).fill(Number.NaN), { shape: [8, 8] });
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const dialog = await openObject(page, "noisy");
    await dialog.getByText("96 zero, 2 NaN, 2 infinite of 400 elements").waitFor();
    await dialog.getByRole("img", { name: /^Most are 0 to 0\.0\d+: 96 of 400$/ }).waitFor();
    const { nan, positiveInfinite, negativeInfinite } = specialColours;
    const colours = [nan, nan, positiveInfinite, negativeInfinite];
    for (const [x, colour] of colours.entries())
      assert.deepEqual(await pixelAt(page, x, 0), [...colour, 255]);
    assert.deepEqual(await pixelAt(page, 4, 0), [0, 0, 0, 255]);
    for (const legend of ["2 NaN", "1 +infinity", "1 -infinity"])
      await dialog.locator("#histogram").getByText(legend).waitFor();
    // 96 elements in the fullest bin, and 4 or 5 in each of the others.
    const heights = () => barHeights(page);
    const [fullest = 0, ...others] = await heights();
    assert.equal(fullest, 100);
    assert.ok(
      others.every((height) => height === 0 || (height > 4 && height < 9)),
      `${others}`,
    );
    await dialog.getByLabel("Logarithmic counts").check();
    const [fullestLog, ...othersLog] = await heights();
    assert.equal(fullestLog, 100);
    assert.ok(
      othersLog.every((height) => height === 0 || height > 30),
      `${othersLog}`,
    );
    await page.keyboard.press("Escape");
    await openObject(page, "nothing");
    await dialog.getByText("0 zero, 64 NaN, 0 infinite of 64 elements").waitFor();
    assert.deepEqual(await pixelAt(page, 3, 3), [...nan, 255]);
    assert.equal(await dialog.locator("#histogram svg").count(), 0);
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("shows each array of a bundle, with names as text, and says why one has no picture", async () => {
    await using cli = await CliRig.open();
    const hub = await connect({ socket: cli.socket, device: "host", program: EVIL });
    const bundle = await hub.createBundle("model", {
      [EVIL]: { dtype: "complex64", shape: [16, 16] },
      bias: { dtype: "int64", shape: [300] },
    });
    await bundle
      .array("bias")
      .write(BigInt64Array.from({ length: 300 }, (_, i) => BigInt(((i % 4) + 1) % 3)));
    await bundle.publish();
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const dialog = await openObject(page, "model");
    await dialog.getByRole("button", { name: "<img src=x onerror=alert(1)>" }).click();
    await dialog.getByRole("img", { name: /as grey, magnitudes from 0/ }).waitFor();
    await dialog.getByText("complex64[16, 16]", { exact: true }).waitFor();
    assert.equal(await page.locator("img").count(), 0);
    await dialog.getByRole("button", { name: /^bias/ }).click();
    await dialog.getByText("No picture: it has fewer than two axes.").waitFor();
    await dialog.getByRole("img", { name: "Most are 1: 150 of 300" }).waitFor();
    assert.deepEqual(await barHeights(page), [50, 100, 50]);
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("reads a sample of a large array, and all of it when it is asked to", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    // 128 MiB that nobody has written, but for one element.
    using large = await hub.create("large", { dtype: "uint8", shape: [8192, 16_384] });
    await large.slice(8191, 16_383).write(Uint8Array.of(9));
    await large.publish();
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const dialog = await openObject(page, "large");
    await dialog.getByText("From 262144 of 134217728 elements, evenly spread.").waitFor();
    await dialog.getByRole("img", { name: /^Shows every 32nd row and column/ }).waitFor();
    await dialog.getByText("0 to 0, mean 0").waitFor();
    await dialog.getByRole("button", { name: "Read all 128 MiB" }).click();
    await dialog.getByText(/^0 to 9, mean /).waitFor();
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("can be closed in the middle of an answer", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    using _ = await hub.put("pixels", new Uint8Array(64), { shape: [8, 8] });
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    for (const path of ["object", "values", "picture"]) {
      // The headers of this answer come, and its body does not.
      await page.evaluate(`{
        window.whole ??= window.fetch;
        window.begun = false;
        window.fetch = async (url, options) => {
          const answer = await window.whole(url, options);
          if (!url.startsWith("${path}?")) return answer;
          const { signal } = options;
          const start = (controller) =>
            signal.addEventListener("abort", () => controller.error(signal.reason));
          window.begun = true;
          return new Response(new ReadableStream({ start }), answer);
        };
      }`);
      const dialog = await openObject(page, "pixels");
      await eventually(
        "the answer begins",
        async () => (await page.evaluate("begun")) || undefined,
      );
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
    }
    await page.evaluate("window.fetch = window.whole");
    const dialog = await openObject(page, "pixels");
    await dialog.getByText("0 to 0, mean 0").waitFor();
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("ends what is being read when it is closed", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    using large = await hub.create("large", { dtype: "uint8", shape: [8192, 16_384] });
    await large.publish();
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const dialog = await openObject(page, "large");
    const button = dialog.getByRole("button", { name: "Read all 128 MiB" });
    await button.waitFor();
    // The request waits here, however fast the dashboard is.
    await page.route(/all=1/, () => {});
    const asked = page.waitForRequest(/all=1/);
    await button.click();
    await asked;
    const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("all=1"));
    await page.keyboard.press("Escape");
    await ended;
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("says that an object has ended while its page is open, and reads nothing more", async () => {
    await using cli = await CliRig.open();
    const hub = await cli.join();
    const name = "n".repeat(255);
    const array = await hub.put(name, new Float32Array(64), { shape: [8, 8] });
    await using rig = await DashboardPage.open(cli, { viewport: { width: 390, height: 800 } });
    const { page, problems } = rig;
    const dialog = await openObject(page, name);
    await dialog.getByText("64 zero, 0 NaN, 0 infinite of 64 elements").waitFor();
    const width = await page.evaluate("document.documentElement.scrollWidth");
    assert.ok(Number(width) <= 390, `${width} px`);
    array.close();
    await dialog.getByText("It has ended, or was removed or replaced.").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Remove" }).count(), 0);
    await dialog.getByRole("button", { name: "Back" }).click();
    await dialog.waitFor({ state: "hidden" });
    assert.deepEqual(problems, []);
    await hub.close();
  });

  it("shows an object that was replaced and is still held, with its holders", async () => {
    await using cli = await CliRig.open();
    const join = (program: string) => connect({ socket: cli.socket, device: "host", program });
    await using hub = await join("producer.mjs");
    await using reader = await join("reader.py");
    const old = await hub.put("frame", new Float32Array(64), { shape: [8, 8] });
    const held = await reader.open("frame");
    await using rig = await DashboardPage.open(cli);
    const { page, problems } = rig;
    const dialog = await openObject(page, "frame");
    await dialog.getByText("64 zero, 0 NaN, 0 infinite of 64 elements").waitFor();
    using _ = await hub.put("frame", new Float32Array(256), { replace: true });
    await dialog.getByText("It has ended, or was removed or replaced.").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Remove" }).count(), 0);
    await page.keyboard.press("Escape");
    const names = page.locator("#rows tr td:first-child:not(.space)");
    await eventually(
      "both objects are listed",
      async () => (await names.allTextContents()).join() === "frame,(frame)" || undefined,
    );
    await page.getByRole("button", { name: "Objects 2" }).waitFor();
    await page.getByRole("button", { name: /^\(frame\), .* held by producer\.mjs / }).click();
    const detail = page.getByRole("dialog", { name: "(frame)", exact: true });
    for (const fact of ["no name", "when its last holder closes it"])
      await detail.getByText(fact, { exact: true }).waitFor();
    await detail.getByRole("row", { name: /^owner producer\.mjs / }).waitFor();
    await detail.getByRole("row", { name: /^read reader\.py / }).waitFor();
    old.close();
    await detail.getByRole("row", { name: /^owner / }).waitFor({ state: "detached" });
    // The table is drawn anew at each look, and its link keeps the focus. A click might miss it.
    await detail.getByRole("link", { name: /^reader\.py / }).focus();
    await page.keyboard.press("Enter");
    await page
      .getByRole("dialog", { name: /^reader\.py / })
      .getByText(/^\(frame\), /)
      .waitFor();
    await page.goBack();
    await detail.getByRole("row", { name: /^read reader\.py / }).waitFor();
    held.close();
    await detail.getByText("It is no more.").waitFor();
    await page.keyboard.press("Escape");
    await names.getByText("(frame)", { exact: true }).waitFor({ state: "detached" });
    // The browser reports the answer 404 for the object that is gone.
    assert.deepEqual(
      problems.filter((text) => !text.includes("404")),
      [],
    );
  });
});
