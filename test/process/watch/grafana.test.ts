/** The dashboard for Grafana in deploy/, judged by Grafana's own types and by Prometheus. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  complaintsAbout,
  GRAFANA_DASHBOARD,
  grafanaDashboard,
  grafanaExpressions,
} from "../../support/grafana-dashboard.js";
import { promtool, skipPromtool } from "../../support/prometheus.js";
import { TestFolder } from "../../support/test-folder.js";

describe("the dashboard for Grafana", () => {
  it("is one of Grafana's own types, which find out what is wrong", () => {
    const text = readFileSync(GRAFANA_DASHBOARD, "utf8");
    const wrong = [
      ['"graphTooltip": 1', '"graphTooltip": 3', /'3' is not assignable/],
      ['"drawStyle": "line"', '"drawStyle": "lines"', /'"lines"' is not assignable/],
      ['"displayMode": "table"', '"displayStyle": "table"', /displayStyle"?' does not exist/],
      ['"expr":', '"query":', /query"?' does not exist/],
      ['"schemaVersion": 38,', "", /'schemaVersion' is missing/],
      ['"type": "table"', '"type": "tables"', /'"tables"' is not assignable/],
    ] as const;
    const spoiled = wrong.map(([right, instead]) => {
      assert.ok(text.includes(right), right);
      return text.replace(right, instead);
    });
    const [found, ...others] = complaintsAbout([text, ...spoiled]);
    assert.deepEqual(found, []);
    for (const [i, [, instead, complaint]] of wrong.entries())
      assert.match(others[i]?.join("\n") ?? "", complaint, instead);
  });

  it("has a variable for each that its queries use", () => {
    const { panels, templating, uid } = grafanaDashboard();
    assert.ok((uid ?? "").length <= 40);
    const variables = templating.list?.map(({ name, type }) => [name, type]) ?? [];
    assert.deepEqual(variables[0], ["datasource", "datasource"]);
    const used = new Set(
      [...JSON.stringify(panels).matchAll(/\$\{?(?!__)([a-z]+)/g)].map((match) => match[1]),
    );
    assert.deepEqual([...used].sort(), variables.map(([name]) => name).sort());
  });

  it("has panels with queries, that do not overlap", () => {
    const { panels } = grafanaDashboard();
    const cells = new Set<string>();
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    for (const panel of panels) {
      const { title = "", gridPos: { x, y, w, h } = { x: -1, y: 0, w: 0, h: 0 } } = panel;
      assert.ok(title !== "" && x >= 0 && x + w <= 24, title);
      for (let row = y; row < y + h; row += 1) {
        for (let column = x; column < x + w; column += 1) {
          assert.ok(!cells.has(`${column},${row}`), `${title} overlaps`);
          cells.add(`${column},${row}`);
        }
      }
      if (panel.type === "row") continue;
      const { datasource, targets } = panel;
      assert.deepEqual(datasource, { type: "prometheus", uid: `$${"{datasource}"}` });
      assert.ok(targets.length > 0, title);
      for (const { expr, refId } of targets)
        assert.match(`${refId}: ${expr}`, /^[A-Z]: .*cuda_ipc_/);
    }
  });

  it("has only expressions that Prometheus can parse", { skip: skipPromtool }, () => {
    const expressions = grafanaExpressions();
    assert.ok(expressions.length > 15);
    // A recording rule may have any expression, and promtool checks it.
    const rules = expressions.map((expr, index) => ({ record: `r${index}`, expr }));
    using folder = new TestFolder();
    const path = `${folder.path}/rules.yml`;
    writeFileSync(path, JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
    promtool(["check", "rules", path]);
  });
});
