/**
 * The client in C on a simulated GPU: the same tests as test/gpu/c-client.test.ts, in a process
 * whose libcuda is the one in C of the conformance suite. The client uses it, too.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TestFolder } from "../../support/test-folder.js";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";
import { skip as noCompiler } from "./c-programs.js";

const source = fileURLToPath(
  new URL("../../../../test/conformance/libcuda-in-c/libcuda.c", import.meta.url),
);
const cases = fileURLToPath(new URL("./cases-on-libcuda.js", import.meta.url));
const header = findCudaHeader();
const noHeader =
  typeof header === "string" && process.env.REQUIRE_CUDA_HEADER !== "1" ? header : false;

describe("the client in C", { skip: noCompiler || noHeader }, () => {
  it("does on a libcuda in C what it does on a GPU", async () => {
    if (typeof header === "string") assert.fail(header);
    using folder = new TestFolder();
    header.compile(source, folder.file("libcuda.so.1"), ["-shared", "-fPIC", "-O1"]);
    const env: NodeJS.ProcessEnv = { ...process.env, LD_LIBRARY_PATH: folder.path };
    // It would report to this process in another form.
    delete env.NODE_TEST_CONTEXT;
    const args = ["--test-reporter=tap", cases];
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
    });
    const [code] = await once(child, "close");
    assert.equal(code, 0, output);
    assert.match(output, /^# pass 6$/m, output);
    assert.match(output, /^# skipped 0$/m, output);
  });
});
