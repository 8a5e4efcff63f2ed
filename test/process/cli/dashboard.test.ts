/** The dashboard in a real browser, with a real hub: what a person reads, types and clicks. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { WebServer } from "../../../src/web/web-server.js";
import { killHub } from "../../support/test-folder.js";
import { CliRig } from "./cli-rig.js";
import { DashboardPage } from "./dashboard-page.js";
import { launch, problemsOf, served, shown, withoutBrowser as skip } from "./dashboard-rig.js";

describe("cuda-ipc dashboard", () => {
  it("gives nothing without the token and the cookie, and ends at SIGTERM", async () => {
    await using rig = await CliRig.open();
    const { url, child, outcome } = await served(rig);
    const { origin } = new URL(url);
    for (const path of ["/", "/?token=x", "/events", "/page.js", "/../../etc/passwd"])
      assert.equal((await fetch(origin + path)).status, 401, path);
    const entered = await fetch(url);
    const folder = /url=(.*)$/.exec(entered.headers.get("refresh") ?? "")?.[1] ?? "";
    const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? "";
    const status = async (path: string, init: RequestInit = {}) =>
      (await fetch(origin + folder + path, { ...init, headers: { cookie, origin } })).status;
    assert.equal(await status(""), 200);
    assert.equal(await status("page.js"), 200);
    for (const path of ["constructor", "..%2fpage.js", "page/index.html"])
      assert.equal(await status(path), 404, path);
    assert.equal(await status("", { method: "POST" }), 405);
    assert.equal(await status("remove?name=x", { method: "POST" }), 400);
    assert.equal(await status("object?name=x&id=1"), 409);
    const wrong = await fetch(`${origin}${folder}remove?name=x&id=1`, {
      method: "POST",
      headers: { cookie, origin: "http://other.example" },
    });
    assert.equal(wrong.status, 403);
    assert.equal((await fetch(origin + folder)).status, 401);
    child.kill("SIGTERM");
    assert.equal((await outcome).code, 143);
  });

  it("shows who holds memory, sorts and filters, and says that the hub is gone", {
    skip,
  }, async () => {
    await using rig = await CliRig.open();
    const { url, child, outcome } = await served(rig);
    const evil = "<img src=x onerror=alert(1)>\u001b[2J";
    const hub = await connect({ socket: rig.socket, device: "host", program: evil });
    const small = await hub.create("small", { dtype: "uint8", shape: [4096] });
    const large = await hub.create("large", { dtype: "uint8", shape: [1 << 20] });
    const channel = await hub.createChannel("frames", { dtype: "uint8", shape: [8], slots: 4 });
    const browser = await launch();
    try {
      const page = await browser.newPage();
      const problems = problemsOf(page);
      await page.goto(url);
      const first = page.locator("#rows tr td:first-child:not(.space)");
      await first.getByText("large", { exact: true }).waitFor();
      assert.doesNotMatch(page.url(), /token/);
      assert.equal((await first.allTextContents())[0], "large");
      const sorted = (order: string) => page.locator(`th[aria-sort=${order}]`).allTextContents();
      assert.deepEqual([await sorted("descending"), await sorted("ascending")], [["Size"], []]);
      await page.getByRole("button", { name: "Name" }).click();
      assert.deepEqual([await sorted("descending"), await sorted("ascending")], [[], ["Name"]]);
      assert.deepEqual(await first.allTextContents(), ["frames", "large", "small"]);
      await page.keyboard.press("/");
      await page.keyboard.type("SMA");
      assert.deepEqual(await first.allTextContents(), ["small"]);
      const legend = await page.locator(".legend").first().textContent();
      assert.ok(legend?.includes("<img src=x onerror=alert(1)>"), legend ?? "");
      assert.equal(await page.locator("img").count(), 0);
      await page.getByLabel("Filter").fill("");
      await page.keyboard.press("Escape");
      await page.keyboard.press("2");
      await page.getByText("no readers").waitFor();
      await page.setViewportSize({ width: 360, height: 700 });
      const width = await page.evaluate("document.documentElement.scrollWidth");
      assert.ok(Number(width) <= 360, `${width} px`);
      assert.deepEqual(problems, []);
      await hub.close();
      await killHub(rig.folder);
      await page.getByText("The hub does not answer").waitFor();
      const next = await rig.join();
      using _ = await next.create("again", { dtype: "uint8", shape: [1] });
      await page.keyboard.press("1");
      await first.getByText("again", { exact: true }).waitFor();
      await page.getByText(/^Hub at /).waitFor();
      await next.close();
    } finally {
      await browser.close();
      for (const open of [small, large, channel]) open.close();
      child.kill("SIGTERM");
      await outcome;
    }
  });

  it("opens from its URL by a redirect, and from a link of another site", { skip }, async () => {
    await using rig = await CliRig.open();
    await using _ = await rig.join();
    const { url, child, outcome } = await served(rig);
    const browser = await launch();
    const link = `<a href="${url}">the dashboard</a>`;
    const elsewhere = await WebServer.listen({
      address: { host: "127.0.0.1", port: 0 },
      handler: async () => ({ status: 200, type: "text/html", body: link }),
    });
    try {
      const page = await browser.newPage();
      const answer = await page.goto(url);
      assert.equal(answer?.request().redirectedFrom()?.url(), url);
      await page.getByText(/^Hub at /).waitFor();
      assert.doesNotMatch(page.url(), /token/);
      const context = await browser.newContext();
      const other = await context.newPage();
      // Another site than 127.0.0.1, although it is the same machine.
      await other.goto(`http://localhost:${elsewhere.address.port}/`);
      await other.getByText("the dashboard").click();
      await other.getByText(/^Hub at /).waitFor();
      assert.doesNotMatch(other.url(), /token/);
    } finally {
      await browser.close();
      await elsewhere.close();
      child.kill("SIGTERM");
      await outcome;
    }
  });

  it("shows the statistics of an object, and removes it after it was confirmed", {
    skip,
  }, async () => {
    await using rig = await CliRig.open();
    const hub = await rig.join();
    const name = `${"n".repeat(250)}.long`;
    const values = await hub.put(name, Float32Array.of(Number.NaN, 1, Number.POSITIVE_INFINITY));
    using _ = await hub.put("kept", Uint8Array.of(1));
    const { url, child, outcome } = await served(rig);
    const browser = await launch();
    try {
      const page = await browser.newPage();
      await page.goto(url);
      const dialog = page.getByRole("dialog");
      await page.getByText(name, { exact: true }).click();
      await dialog.getByText("0 zero, 1 NaN, 1 infinite of 3 elements").waitFor();
      await dialog.getByRole("button", { name: "Remove" }).dblclick();
      await dialog.waitFor({ state: "hidden" });
      assert.deepEqual((await hub.list()).map((object) => object.name).sort(), ["kept", name]);
      const row = page.locator("#rows tr", { hasText: name });
      await row.focus();
      // The row is drawn anew meanwhile, and stays in focus.
      await page.waitForTimeout(1500);
      await page.keyboard.press("Enter");
      await dialog.getByText("1 NaN, ").waitFor();
      await dialog.getByRole("button", { name: "Remove" }).click();
      await dialog.getByRole("button", { name: "Remove it for everybody" }).click();
      await dialog.getByText(`Removed ${name}.`).waitFor();
      assert.ok(Number.isNaN((await values.read())[0]), "its holder still has the memory");
      assert.deepEqual(
        (await hub.list()).map((object) => object.name),
        ["kept"],
      );
      await page.keyboard.press("Escape");
      const rows = page.locator("#rows");
      await rows.getByText(`(${name})`, { exact: true }).waitFor();
      values.close();
      await row.waitFor({ state: "detached" });
      const [{ object: id } = { object: 0 }] = await hub.list();
      await hub.remove("kept");
      using next = await hub.put("kept", Uint8Array.of(2));
      // A page that has not yet heard of it asks for the removal of the object that it shows.
      const refused = await page.evaluate(`
        fetch("remove?name=kept&id=${id}", { method: "POST" }).then((answer) => answer.text())`);
      assert.equal(refused, "kept is another object now.\n");
      const [later] = await hub.list();
      assert.notEqual(later?.object, id);
      assert.deepEqual(await next.read(), Uint8Array.of(2));
    } finally {
      await browser.close();
      child.kill("SIGTERM");
      await outcome;
      await hub.close();
    }
  });

  it("keeps few elements for 3,000 objects", { skip }, async () => {
    await using rig = await CliRig.open();
    const hub = await rig.join();
    const made = await Promise.all(
      Array.from({ length: 3000 }, (_, i) => hub.createTimeline(`t${i}`)),
    );
    const { url, child, outcome } = await served(rig);
    const browser = await launch();
    try {
      const page = await browser.newPage();
      await page.goto(url);
      await shown(page, page.getByRole("button", { name: "Objects 3000" }));
      assert.ok((await page.locator("#rows tr").count()) < 100);
      await page.locator("#list").evaluate("(list) => { list.scrollTop = 1e9; }");
      await page.getByText("t2999", { exact: true }).waitFor();
    } finally {
      await browser.close();
      child.kill("SIGTERM");
      await outcome;
      for (const timeline of made) timeline.close();
      await hub.close();
    }
  });

  it("opens what was clicked, also while the list is drawn anew, and keeps the focus", {
    skip,
  }, async () => {
    await using cli = await CliRig.open();
    await using hub = await cli.join();
    using _ = await hub.put("frame", Uint8Array.of(1));
    await using rig = await DashboardPage.open(cli);
    const { page } = rig;
    const dialog = page.getByRole("dialog");
    const tab = page.getByRole("button", { name: "Objects 1" });
    // With a look each second, it comes in the middle of half of these clicks.
    for (let click = 0; click < 8; click += 1) {
      await page.locator("#rows").getByText("frame").click({ delay: 500 });
      await dialog.waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
    }
    await tab.focus();
    await page.waitForTimeout(2500);
    assert.equal(await page.evaluate("document.activeElement.textContent"), "Objects 1");
  });
});
