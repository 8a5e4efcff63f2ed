/**
 * Writes the tables of docs/reference.md, the files of docs/protocol, and the generated modules of
 * the Python package (`npm run docs:reference`).
 */
import { readFileSync, writeFileSync } from "node:fs";
import { headerText } from "./protocol-header.js";
import { pythonTables } from "./python-tables.js";
import { withTables } from "./reference-tables.js";
import { vectorFiles } from "./vectors/vector-files.js";

const path = "docs/reference.md";
writeFileSync(path, withTables(readFileSync(path, "utf8")));
writeFileSync("include/cuda_ipc_protocol.h", headerText());
for (const [file, text] of await vectorFiles()) writeFileSync(file, text);
for (const [file, text] of pythonTables()) writeFileSync(file, text);
