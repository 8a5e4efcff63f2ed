import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, connect as connectTcp, createServer } from "node:net";
import { describe, it } from "node:test";
import type { HubStatus } from "../../../src/index.js";
import { promtool, skipPromtool } from "../../support/prometheus.js";
import { CliRig, eventually, type Started } from "./cli-rig.js";

interface Reported extends HubStatus {
  readonly running: boolean;
}

/** Starts `cuda-ipc metrics --listen`, and resolves with it and its URL once it listens. */
async function listening(rig: CliRig, ...words: string[]) {
  const started = rig.start("metrics", "--listen", "0", ...words);
  const url = await eventually("it listens", () => said(started, /^Metrics are at (\S+)$/m));
  return { ...started, url };
}

/** What a pattern finds in the output so far. */
function said({ child }: Started, pattern: RegExp): string | undefined {
  const texts = outputs.get(child) ?? { text: "" };
  if (!outputs.has(child)) {
    outputs.set(child, texts);
    child.stdout?.on("data", (text) => {
      texts.text += text;
    });
  }
  return pattern.exec(texts.text)?.[1];
}

const outputs = new WeakMap<object, { text: string }>();

async function scraped(url: string, init: RequestInit = {}) {
  const answer = await fetch(url, init);
  return {
    status: answer.status,
    type: answer.headers.get("content-type"),
    text: await answer.text(),
  };
}

/** Starts a hub with metrics at any free port. Resolves with the URL once they are served. */
async function hubWithMetrics(rig: CliRig) {
  const started = rig.start("hub", "serve", "--metrics", "0");
  const url = await metricsOf(rig);
  return { ...started, url };
}

function metricsOf(rig: CliRig, except?: string): Promise<string> {
  return eventually("the hub serves metrics", async () => {
    const { code, stdout } = await rig.run("hub", "status", "--json");
    if (code !== 0) return undefined;
    const { metrics } = JSON.parse(stdout) as Reported;
    return metrics !== null && metrics !== except ? metrics : undefined;
  });
}

describe("cuda-ipc metrics", () => {
  it("prints the metrics once, also if no hub runs, and starts none", async () => {
    await using rig = await CliRig.open();
    const without = await rig.ok("metrics");
    assert.match(without, /^cuda_ipc_up 0$/m);
    assert.match(await rig.statusWithoutHub(), /^No hub runs at /);
    await using hub = await rig.join();
    using _ = await hub.create("frame", { dtype: "int8", shape: [1] });
    assert.match(await rig.ok("metrics"), /^cuda_ipc_object_bytes\{name="frame",.*\} 4096$/m);
  });

  it("prints what promtool accepts", { skip: skipPromtool }, async () => {
    await using rig = await CliRig.open();
    promtool(["check", "metrics"], await rig.ok("metrics"));
  });

  it("serves them at /metrics of this machine, and nothing else", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const { url, child, outcome } = await listening(rig);
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    const { status, type, text } = await scraped(url);
    assert.deepEqual([status, type], [200, "text/plain; version=0.0.4; charset=utf-8"]);
    assert.match(text, /^cuda_ipc_clients\{state="connected"\} 1$/m);
    assert.equal((await scraped(url.replace("/metrics", "/"))).status, 404);
    assert.equal((await scraped(`${url}/../../etc/passwd`)).status, 404);
    assert.equal((await scraped(url, { method: "POST" })).status, 403);
    assert.ok(hub.socketPath !== "");
    child.kill("SIGINT");
    const { code, stderr } = await outcome;
    assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
  });

  it("serves with --token-file only programs that send the token", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using _ = await hub.put("secret", Uint8Array.of(1));
    const { url, child, outcome } = await listening(rig, "--token-file", "token");
    const token = readFileSync(rig.path("token"), "utf8").trim();
    for (const authorization of ["", "Bearer x", `Basic ${token}`, token]) {
      const { status, text } = await scraped(url, { headers: { authorization } });
      assert.deepEqual([status, text.includes("secret")], [401, false], authorization);
    }
    const { status, text } = await scraped(url, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(status, 200);
    assert.match(text, /^cuda_ipc_object_bytes\{name="secret",/m);
    child.kill("SIGTERM");
    await outcome;
    assert.match(await rig.fails("USAGE", "metrics", "--token-file", "token"), /add --listen/);
  });

  it("refuses a request by the name of a web site, which may rebind it to this machine", async () => {
    await using rig = await CliRig.open();
    const { url, child, outcome } = await listening(rig);
    const { port } = new URL(url);
    const socket = connectTcp(Number(port), "127.0.0.1");
    socket.write("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    const [first] = await once(socket, "data");
    assert.match(String(first), /^HTTP\/1\.1 403 /);
    socket.destroy();
    child.kill();
    await outcome;
  });

  it("listens elsewhere only if asked, and warns", async () => {
    await using rig = await CliRig.open();
    const started = rig.start("metrics", "--listen", "0.0.0.0:0");
    const url = await eventually("it listens", () => said(started, /^Metrics are at (\S+)$/m));
    assert.equal((await scraped(url.replace("0.0.0.0", "localhost"))).status, 200);
    started.child.kill("SIGTERM");
    assert.match((await started.outcome).stderr, /^warning: http:.* is open to other machines: /);
    for (const wrong of ["", "x", "70000", "example.com:9464", "[::1]", "1.2.3.4"])
      assert.match(await rig.fails("USAGE", "metrics", "--listen", wrong), /Give a port/);
  });

  it("says that the hub is down as soon as it is, does not hang, and finds the next one", async () => {
    await using rig = await CliRig.open();
    const serving = await (async () => {
      await using _ = await rig.join();
      return listening(rig);
    })();
    const { url, child, outcome } = serving;
    const up = async () => /^cuda_ipc_up (\d)$/m.exec((await scraped(url)).text)?.[1];
    assert.equal(await up(), "1");
    const { pid } = await rig.json<Reported>("hub", "status");
    // A hub that hangs: the scrape ends nevertheless.
    process.kill(pid, "SIGSTOP");
    assert.equal(
      await eventually("it is down", async () => ((await up()) === "0" ? "0" : undefined)),
      "0",
    );
    process.kill(pid, "SIGCONT");
    await eventually("it answers again", async () => ((await up()) === "1" ? true : undefined));
    await rig.ok("hub", "stop", "--force");
    await eventually("it is down", async () => ((await up()) === "0" ? true : undefined));
    await using _hub = await rig.join();
    await eventually("the next hub", async () => ((await up()) === "1" ? true : undefined));
    child.kill();
    await outcome;
  });

  it("survives a flood of scrapes and clients that read nothing", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    const made = [];
    for (let i = 0; i < 1500; i += 1)
      made.push(
        await hub.create(`${i}${"n".repeat(250)}`.slice(0, 255), { dtype: "int8", shape: [1] }),
      );
    const { url, child, outcome } = await listening(rig);
    const { port } = new URL(url);
    const silent = Array.from({ length: 200 }, () => {
      const socket = connectTcp(Number(port), "127.0.0.1");
      socket.on("error", () => {}).pause();
      socket.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20));
      return socket;
    });
    const status = () => rig.json<Reported>("hub", "status");
    const { clients } = await status();
    const found = await Promise.allSettled(Array.from({ length: 300 }, () => scraped(url)));
    // The server ends connections that are too many. Those that it serves get everything.
    for (const one of found) {
      if (one.status === "rejected" || one.value.status !== 200) continue;
      assert.match(one.value.text, /^cuda_ipc_series_left_out\{of="object"\} 500$/m);
    }
    for (const socket of silent) socket.destroy();
    const again = await eventually("it answers", () => scraped(url).catch(() => undefined));
    assert.equal(again.status, 200);
    assert.equal((await status()).clients, clients, "one client of the hub, however many scrapes");
    child.kill();
    await outcome;
    for (const array of made) array.close();
  });
});

describe("cuda-ipc hub serve --metrics", () => {
  it("serves metrics beside the hub, says where, and ends with the hub", async () => {
    await using rig = await CliRig.open();
    const { url, child, outcome } = await hubWithMetrics(rig);
    assert.match((await scraped(url)).text, /^cuda_ipc_up 1$/m);
    assert.match(await rig.ok("hub", "status"), new RegExp(`^metrics +${url}$`, "m"));
    assert.match(await rig.ok("hub", "status"), /stays until it is stopped/);
    child.kill("SIGTERM");
    const { stdout } = await outcome;
    assert.match(stdout, new RegExp(`metrics are at ${url}`));
    await eventually("nobody listens", () =>
      scraped(url).then(
        () => undefined,
        () => true,
      ),
    );
  });

  it("starts another process if that one dies", async () => {
    await using rig = await CliRig.open();
    const { url } = await hubWithMetrics(rig);
    await using hub = await rig.join();
    // It joins the hub with the first scrape.
    await scraped(url);
    process.kill(await exporterOf(rig), "SIGKILL");
    const next = await metricsOf(rig, url);
    assert.match((await scraped(next)).text, /^cuda_ipc_up 1$/m);
    assert.equal((await hub.status()).metrics, next);
    await hub.stop({ force: true });
  });

  it("ends the process with a hub that is killed, and the next hub starts its own", async () => {
    await using rig = await CliRig.open();
    const { url, child, outcome } = await hubWithMetrics(rig);
    child.kill("SIGKILL");
    await outcome;
    const next = await metricsOf(rig, url);
    assert.match((await scraped(next)).text, /^cuda_ipc_up 1$/m);
    await eventually("the first has ended", () =>
      scraped(url).then(
        () => undefined,
        () => true,
      ),
    );
  });

  it("serves clients although the port is taken, and says so", async () => {
    await using rig = await CliRig.open();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const started = rig.start("hub", "serve", "--metrics", String(port));
    await eventually("it says so", () =>
      said(started, /(metrics at \S+ are not served, another try follows: .*)/),
    );
    assert.equal((await rig.json<Reported>("hub", "status")).metrics, null);
    server.close();
    assert.equal(await metricsOf(rig), `http://127.0.0.1:${port}/metrics`);
    started.child.kill("SIGTERM");
    const { stdout } = await started.outcome;
    assert.match(stdout, new RegExp(`metrics at 127.0.0.1:${port} are not served.*: error\\[`));
  });

  it("warns of an address that other machines reach, and refuses what is no address", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.fails("USAGE", "hub", "serve", "--metrics", "x"), /Give a port/);
    await rig.fails("USAGE", "hub", "serve", "--metrics", "0", "--idle-ms", "5");
    const started = rig.start("hub", "serve", "--metrics", "0.0.0.0:0", "--log-level", "warn");
    await eventually("it warns", () => said(started, /(0\.0\.0\.0:0: other machines can read)/));
    started.child.kill("SIGTERM");
    await started.outcome;
  });
});

/** The process that serves the metrics of the hub. */
async function exporterOf(rig: CliRig): Promise<number> {
  const { clients } = await rig.json<{ clients: { pid: number; program: string }[] }>("top");
  const found = clients.find(({ program }) => program === "cuda-ipc metrics");
  assert.ok(found !== undefined, JSON.stringify(clients));
  return found.pid;
}
