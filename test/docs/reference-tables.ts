/** Makes the tables of docs/reference.md from the source. */

import { type DType, dtypeNames, dtypes } from "../../src/array/dtype.js";
import { hostArrayType } from "../../src/array/host-values.js";
import { errorCodes } from "../../src/base/error-codes.js";
import { defaults, limits } from "../../src/base/limits.js";
import { logEvents, logLevels } from "../../src/base/log-events.js";

const tables: Readonly<Record<string, () => string[]>> = {
  dtypes: () => [
    "| dtype | bytes | in JavaScript |",
    "|---|---|---|",
    ...dtypeNames.map(
      (name: DType) =>
        `| \`${name}\` | ${dtypes[name].byteSize} | \`${hostArrayType(name).name}\` |`,
    ),
  ],
  errors: () => [
    "| code | meaning | what to do | retry helps |",
    "|---|---|---|---|",
    ...Object.entries(errorCodes).map(
      ([code, { meaning, remedy, retryable }]) =>
        `| \`${code}\` | ${meaning} | ${remedy} | ${retryable ? "yes" : "no"} |`,
    ),
  ],
  "log-events": () => [
    "| level | event | meaning |",
    "|---|---|---|",
    ...logLevels.flatMap((wanted) =>
      Object.entries(logEvents)
        .filter(([, { level }]) => level === wanted)
        .map(([event, { level, meaning }]) => `| ${level} | \`${event}\` | ${meaning} |`),
    ),
  ],
  limits: () => [
    "| name | value |",
    "|---|---|",
    ...Object.entries({ ...limits, ...defaults })
      // viewBytesMax is Node's own limit and differs between versions.
      .filter(([name]) => name !== "viewBytesMax")
      .map(([name, value]) => `| \`${name}\` | ${value.toLocaleString("en")} |`),
  ],
};

/** The page with its tables replaced by those of the source. */
export function withTables(page: string): string {
  return Object.entries(tables).reduce((text, [name, rows]) => {
    const begin = `<!-- begin: ${name} -->\n`;
    const end = `<!-- end: ${name} -->`;
    const from = text.indexOf(begin);
    const to = text.indexOf(end);
    if (from < 0 || to < from)
      throw new Error(`docs/reference.md has no place for the table "${name}"`);
    return `${text.slice(0, from + begin.length)}${rows().join("\n")}\n${text.slice(to)}`;
  }, page);
}
