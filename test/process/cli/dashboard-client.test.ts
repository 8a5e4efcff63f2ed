/** What the dashboard does for a client, and for Prometheus. */
import assert from "node:assert/strict";
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { parsedMetrics, promtool, skipParser, skipPromtool } from "../../support/prometheus.js";
import { CliRig } from "./cli-rig.js";
import { launch, problemsOf, served, withoutBrowser as skip } from "./dashboard-rig.js";

describe("the dashboard's page of a client", () => {
  it("disconnects the client after it was confirmed", { skip }, async () => {
    await using rig = await CliRig.open();
    const evil = "<img src=x>";
    const join = (program: string) => connect({ socket: rig.socket, device: "host", program });
    await using hub = await join(evil);
    await using other = await join("other");
    using _ = await hub.put("values", Uint8Array.of(1));
    const { url, child, outcome } = await served(rig);
    const browser = await launch();
    try {
      const page = await browser.newPage();
      const problems = problemsOf(page);
      await page.goto(url);
      await page.getByRole("button", { name: "Clients 2" }).click();
      await page.getByText(evil, { exact: true }).click();
      const words = `${evil} ${process.pid}`;
      const client = page.getByRole("dialog", { name: words, exact: true });
      await client.getByText(/^values, /).waitFor();
      await client.getByRole("button", { name: "Disconnect" }).click();
      const question = page.getByRole("dialog", { name: `Disconnect ${words}?` });
      await question.getByRole("button", { name: "Back" }).click();
      assert.equal((await hub.list()).length, 1, "nothing was confirmed");
      await client.getByRole("button", { name: "Disconnect" }).click();
      await question.getByRole("button", { name: "Disconnect it" }).click();
      await question.getByText("Disconnected.").waitFor();
      await page.keyboard.press("Escape");
      await client.getByText("It is no more.").waitFor();
      await assert.rejects(hub.list(), (error) => hasCode(error, "DISCONNECTED"));
      assert.equal((await other.list({ prefix: "other" })).length, 0, "the other one goes on");
      // The browser reports the answer 404 for the client that is gone.
      assert.deepEqual(
        problems.filter((text) => !text.includes("404")),
        [],
      );
    } finally {
      await browser.close();
      child.kill("SIGTERM");
      await outcome;
    }
  });

  it("disconnects nobody without the cookie, and says who is not there", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const { url, child, outcome } = await served(rig);
    const { origin } = new URL(url);
    const entered = await fetch(url);
    const folder = /url=(.*)$/.exec(entered.headers.get("refresh") ?? "")?.[1] ?? "";
    const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? "";
    const ask = async (session: string, headers: Record<string, string>) => {
      const path = `${origin}${folder}disconnect?session=${session}`;
      return (await fetch(path, { method: "POST", headers })).status;
    };
    assert.equal(await ask("3", { origin }), 401);
    assert.equal(await ask("3", { cookie, origin: "http://other.example" }), 403);
    for (const session of ["", "x", "-1", "1.5"])
      assert.equal(await ask(session, { cookie, origin }), 400, session);
    assert.equal(await ask("3", { cookie, origin }), 409);
    assert.deepEqual(await hub.list(), []);
    child.kill("SIGTERM");
    await outcome;
  });
});

describe("the metrics of the dashboard", () => {
  it("are for programs with the token, which a file keeps", {
    skip: skipPromtool || skipParser,
  }, async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using _ = await hub.put("values", Uint8Array.of(1));
    const tokens: string[] = [];
    for (const start of ["first", "second"]) {
      const { url, child, outcome } = await served(rig, "--token-file", "token");
      const { origin, searchParams } = new URL(url);
      const token = searchParams.get("token") ?? "";
      tokens.push(token);
      const get = (authorization: string) =>
        fetch(`${origin}/metrics`, { headers: { authorization } });
      for (const wrong of ["", "Bearer x", `Basic ${token}`, token])
        assert.equal((await get(wrong)).status, 401, wrong);
      const answer = await get(`Bearer ${token}`);
      const text = await answer.text();
      assert.equal(promtool(["check", "metrics"], text), "", start);
      const found = parsedMetrics(text).find(({ name }) => name === "cuda_ipc_object_bytes");
      assert.equal(found?.labels.name, "values");
      child.kill("SIGTERM");
      await outcome;
    }
    assert.equal(tokens[0], tokens[1]);
    assert.equal(readFileSync(rig.path("token"), "utf8"), `${tokens[0]}\n`);
    assert.equal(statSync(rig.path("token")).mode & 0o777, 0o600);
  });

  it("are refused with a token that others may read, or that is none", async () => {
    await using rig = await CliRig.open();
    writeFileSync(rig.path("token"), `${"x".repeat(43)}\n`);
    chmodSync(rig.path("token"), 0o644);
    const open = await rig.run("dashboard", "--token-file", "token");
    assert.match(open.stderr, /its mode is 0644, wanted one that keeps out all other users/);
    chmodSync(rig.path("token"), 0o660);
    const writable = await rig.run("dashboard", "--token-file", "token");
    assert.match(writable.stderr, /its mode is 0660, wanted one that only its owner can write/);
    chmodSync(rig.path("token"), 0o640);
    writeFileSync(rig.path("token"), "short");
    const short = await rig.run("dashboard", "--token-file", "token");
    assert.match(short.stderr, /wanted 32 to 256 letters/);
    const folder = await rig.run("dashboard", "--token-file", ".");
    assert.match(folder.stderr, /error\[INVALID_FILE\].*it is not a plain file/);
    assert.deepEqual([open.code, writable.code, short.code, folder.code], [1, 1, 1, 1]);
  });

  const skip = process.geteuid?.() !== 0 && "only root can give a file away";
  it("are refused with the token of another user", { skip }, async () => {
    await using rig = await CliRig.open();
    writeFileSync(rig.path("token"), `${"x".repeat(43)}\n`, { mode: 0o600 });
    chownSync(rig.path("token"), 12_345, 12_345);
    const { code, stderr } = await rig.run("dashboard", "--token-file", "token");
    assert.match(
      stderr,
      /error\[PERMISSION_DENIED\].*it belongs to user 12345, wanted a file of root/,
    );
    assert.equal(code, 1);
  });
});
