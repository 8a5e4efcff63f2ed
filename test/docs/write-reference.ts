/**
 * Writes the tables of docs/reference.md and the files of docs/protocol (`npm run docs:reference`).
 */
import { readFileSync, writeFileSync } from "node:fs";
import { headerText } from "./protocol-header.js";
import { vectorsText } from "./protocol-vectors.js";
import { withTables } from "./reference-tables.js";

const path = "docs/reference.md";
writeFileSync(path, withTables(readFileSync(path, "utf8")));
writeFileSync("include/cuda_ipc_protocol.h", headerText());
writeFileSync("docs/protocol/vectors.json", vectorsText());
