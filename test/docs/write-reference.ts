/**
 * Writes the tables of docs/reference.md, the files of docs/protocol, and the generated modules of
 * the Python package (`npm run docs:reference`).
 */
import { readFileSync, writeFileSync } from "node:fs";
import { headerText } from "./protocol-header.js";
import { vectorsText } from "./protocol-vectors.js";
import { pythonTables } from "./python-tables.js";
import { withTables } from "./reference-tables.js";

const path = "docs/reference.md";
writeFileSync(path, withTables(readFileSync(path, "utf8")));
writeFileSync("include/cuda_ipc_protocol.h", headerText());
writeFileSync("docs/protocol/vectors.json", vectorsText());
for (const [file, text] of pythonTables()) writeFileSync(file, text);
