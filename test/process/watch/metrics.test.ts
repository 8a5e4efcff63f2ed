/** The metrics of a real hub, judged by Prometheus' own programs, and what deploy/ makes of them. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { before, describe, it } from "node:test";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import { MetricsText } from "../../../src/watch/metrics/metrics-text.js";
import { GRAFANA_DASHBOARD, grafanaExpressions } from "../../support/grafana-dashboard.js";
import { parsedMetrics, promtool, skipParser, skipPromtool } from "../../support/prometheus.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";
import { ask, asked, SERVICE, ServiceRig } from "../service/service-rig.js";

const HOSTILE = 'p"q\\n\n\\\\x="1"} 7\n# TYPE x counter\u001b[2J\u2028é';
const SHOWN = 'p"q\\n\\u000a\\\\x="1"} 7\\u000a# TYPE x counter\\u001b[2J\\u2028é';
const LONG = "n".repeat(255);
const MESSAGE = { dtype: "float64", shape: [8] } as const;

/** Every metric of a hub whose objects, channels and services are all in use. */
async function realMetrics(): Promise<string> {
  const rig = await ServiceRig.start();
  await using watch = new HubWatch({ socket: rig.hub.socket, program: "metrics" });
  try {
    const worker = await rig.worker({ depth: 4, concurrency: 4 });
    const client = await rig.client();
    await ask(client, { id: 1 });
    const hub = await rig.connect();
    await using other = await rig.hub.connect({ program: HOSTILE });
    using _ = await other.create(LONG, { dtype: "int8", shape: [1] });
    {
      using pinned = await hub.create("left", { ...MESSAGE, lifetime: "pinned" });
      await pinned.publish();
    }
    using writer = await hub.createChannel("numbers", { ...MESSAGE, slots: 4 });
    using reader = await other.openChannel("numbers");
    (await writer.loan()).commit();
    assert.ok(reader.open);
    await until("nobody holds it", async () => {
      return (await hub.list({ prefix: "left" }))[0]?.leases === 0;
    });
    const metrics = new MetricsText();
    metrics.of(await watch.snapshot());
    const held = asked(client, { op: "hold", id: 2 });
    assert.deepEqual(await worker.says(), { began: 2 });
    await ask(client, { id: 3 });
    const text = metrics.of(await watch.snapshot(), 5);
    worker.goOn("release");
    (await soon("the reply", held)).release();
    return text;
  } finally {
    await rig[Symbol.asyncDispose]();
  }
}

describe("the metrics of a real hub", () => {
  let text = "";
  before(async () => {
    text = await realMetrics();
  });

  it("are accepted by promtool without a warning", { skip: skipPromtool }, () => {
    assert.equal(promtool(["check", "metrics"], text), "");
  });

  it("escape what could control a terminal in names, and keep long names", {
    skip: skipParser,
  }, () => {
    const samples = parsedMetrics(text);
    const one = (name: string, labels: Readonly<Record<string, string>>) => {
      const found = samples.filter(
        (sample) =>
          sample.name === name &&
          Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
      );
      assert.equal(found.length, 1, `${name} ${JSON.stringify(labels)}: ${found.length}`);
      return found[0];
    };
    assert.equal(one("cuda_ipc_up", {})?.value, 1);
    assert.equal(one("cuda_ipc_program_clients", { program: SHOWN })?.value, 1);
    const behind = { channel: "numbers", program: SHOWN, pid: String(process.pid) };
    assert.equal(one("cuda_ipc_channel_reader_behind_messages", behind)?.value, 1);
    assert.equal(one("cuda_ipc_object_leases", { name: LONG })?.value, 1);
    assert.equal(one("cuda_ipc_unheld_objects", {})?.value, 1);
    assert.equal(one("cuda_ipc_channel_messages_total", { channel: "numbers" })?.type, "counter");
    assert.equal(one("cuda_ipc_service_requests_in_progress", { service: SERVICE })?.value, 1);
    assert.equal(one("cuda_ipc_service_answers_total", { service: SERVICE })?.value, 2);
    assert.equal(one("cuda_ipc_look_duration_seconds", {})?.value, 0.005);
    const series = samples.map(({ name, labels }) => JSON.stringify([name, labels]));
    assert.equal(new Set(series).size, series.length, "no time series comes twice");
  });

  it("are all described in docs/watch.md, by name", () => {
    const page = readFileSync("docs/watch.md", "utf8");
    const documented = [...page.matchAll(/^\| `(cuda_ipc_\w+)` \|/gm)].map((match) => match[1]);
    assert.deepEqual(documented.sort(), namesIn(text).sort());
  });

  it("have every metric that the alerts name", () => {
    const rules = readFileSync("deploy/prometheus/cuda-ipc-alerts.yml", "utf8");
    assertNamed(rules, namesIn(text));
    assert.ok((rules.match(/- alert: /g) ?? []).length >= 10);
  });

  it("have every metric that the dashboard names", () => {
    assertNamed(readFileSync(GRAFANA_DASHBOARD, "utf8"), namesIn(text));
  });

  it("answer every query of the dashboard", { skip: skipPromtool }, () => {
    // This machine may have no GPU.
    const asked = grafanaExpressions().filter((expr) => !expr.includes('device="gpu"'));
    assert.ok(asked.length > 15);
    promtoolFinds(text, asked);
    assert.throws(() => promtoolFinds(text, ["cuda_ipc_channel_slots{chanel=~'.+'}"]), /got:/);
  });

  it("is found out if a name is wrong", () => {
    assert.throws(() => assertNamed("rate(cuda_ipc_no_such_total[5m])", namesIn(text)));
  });
});

function namesIn(text: string): string[] {
  return [...text.matchAll(/^# TYPE (\S+) /gm)].map((match) => match[1] ?? "");
}

/** Fails if an expression has a metric that does not exist. */
function assertNamed(expressions: string, names: readonly string[]): void {
  const used = new Set(expressions.match(/\bcuda_ipc_[a-z_]+/g));
  assert.ok(used.size > 0);
  const unknown = [...used].filter((name) => !names.includes(name));
  assert.deepEqual(unknown, []);
}

const ADDED = 'job="j",instance="i"';

/** Fails unless Prometheus finds something for each expression in these metrics. */
function promtoolFinds(text: string, expressions: readonly string[]): void {
  // WHY not by lines of an expression: a label has another end of line.
  const samples = text
    .split("\n")
    .flatMap((line) => [/^(cuda_ipc_[a-z_]+)(?:\{(.*)\})? \S+$/s.exec(line) ?? []])
    .filter(([found]) => found !== undefined);
  const series = samples.map(([, name, labels]) => ({
    // Prometheus adds two labels, and would rename a label of the hub that has such a name.
    series: `${name}{${labels === undefined ? "" : `${labels.replace("instance=", "hub=")},`}${ADDED}}`,
    values: "1x20",
  }));
  const found = (expr: string) => ({
    expr: `count(${expr}) > bool 0`,
    eval_time: "10m",
    exp_samples: [{ labels: "{}", value: 1 }],
  });
  using folder = new TestFolder();
  const path = `${folder.path}/test.yml`;
  const promql_expr_test = expressions.map(found);
  const tests = [{ interval: "1m", input_series: series, promql_expr_test }];
  writeFileSync(path, JSON.stringify({ rule_files: [], evaluation_interval: "1m", tests }));
  promtool(["test", "rules", path]);
}

describe("the alert rules", { skip: skipPromtool }, () => {
  it("are valid, and so is the configuration that loads them", () => {
    promtool(["check", "rules", "deploy/prometheus/cuda-ipc-alerts.yml"]);
    promtool(["check", "config", "deploy/prometheus/prometheus.yml"]);
  });

  it("have a test each in which they fire", () => {
    const names = (path: string, before: string) =>
      [
        ...readFileSync(path, "utf8").matchAll(
          new RegExp(`${before}: (\\w+)\\b(?!\\s+exp_alerts: \\[\\])`, "g"),
        ),
      ].map((match) => match[1] ?? "");
    const fired = new Set(names("test/fixtures/alerts.yml", "alertname"));
    const rules = names("deploy/prometheus/cuda-ipc-alerts.yml", "- alert");
    assert.deepEqual(
      rules.filter((name) => !fired.has(name)),
      [],
    );
  });

  it("fire when they should, and not before", () => {
    promtool(["test", "rules", "test/fixtures/alerts.yml"]);
  });
});
