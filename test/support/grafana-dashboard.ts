/** The dashboard for Grafana, and what Grafana's own types say of it. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import ts from "typescript";
import type { GrafanaDashboard } from "./grafana-types.js";

export const GRAFANA_DASHBOARD = "deploy/grafana/cuda-ipc.json";

export function grafanaDashboard(): GrafanaDashboard {
  return JSON.parse(readFileSync(GRAFANA_DASHBOARD, "utf8")) as GrafanaDashboard;
}

/** The queries of all panels, with all values of the variables. */
export function grafanaExpressions(): string[] {
  return grafanaDashboard().panels.flatMap((panel) =>
    panel.type === "row"
      ? []
      : panel.targets.map(({ expr }) =>
          expr
            .replaceAll("[$__rate_interval]", "[5m]")
            .replaceAll(/\$(job|instance|channel)\b/g, ".*"),
        ),
  );
}

/**
 * What TypeScript says of each of these texts as a literal of Grafana's types: unknown fields,
 * values of a wrong type, and required fields that are missing.
 */
export function complaintsAbout(dashboards: readonly string[]): string[][] {
  const options: ts.CompilerOptions = {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    types: [],
  };
  const sources = new Map(
    dashboards.map((json, i) => [
      resolve(`test/support/grafana-dashboard-${i}.ts`),
      'import type { GrafanaDashboard } from "./grafana-types.js";\n' +
        `export const dashboard: GrafanaDashboard = ${json};`,
    ]),
  );
  const host = ts.createCompilerHost(options);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (path) => sources.has(path) || fileExists(path);
  host.getSourceFile = (path, how, ...rest) => {
    const text = sources.get(path);
    return text === undefined
      ? getSourceFile(path, how, ...rest)
      : ts.createSourceFile(path, text, how);
  };
  const program = ts.createProgram([...sources.keys()], options, host);
  return [...sources.keys()].map((path) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(path))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n")),
  );
}
