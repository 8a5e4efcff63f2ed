/** Writes the tables of docs/reference.md: `npm run docs:reference`. */
import { readFileSync, writeFileSync } from "node:fs";
import { withTables } from "./reference-tables.js";

const path = "docs/reference.md";
writeFileSync(path, withTables(readFileSync(path, "utf8")));
