/** docs/coming-from.md: what its tables give as ours passes the compiler, and no call is forgotten. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { type CodeBlock, codeBlocks, typeFaults } from "./code-blocks.js";

const PAGE = "docs/coming-from.md";
const page = readFileSync(PAGE, "utf8");

/** The calls of CUDA and of Python's packages that people look for. */
const CALLS = [
  "cudaIpcGetMemHandle cudaIpcOpenMemHandle cudaIpcCloseMemHandle",
  "cudaIpcGetEventHandle cudaIpcOpenEventHandle cudaDeviceEnablePeerAccess",
  "cuIpcGetMemHandle cuIpcOpenMemHandle cuIpcCloseMemHandle cuIpcGetEventHandle",
  "cuIpcOpenEventHandle cuMemCreate cuMemExportToShareableHandle",
  "cuMemImportFromShareableHandle cuMemMap cuMemSetAccess cudaMallocAsync",
  "cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle",
  "cudaMemPoolExportPointer cudaMemPoolImportPointer",
  "cudaImportExternalMemory cudaImportExternalSemaphore cudaMallocHost cudaMallocManaged",
  "DeviceMemoryResource ipc_enabled Buffer.get_ipc_descriptor Buffer.from_ipc_descriptor",
  "Event.get_ipc_descriptor get_ipc_handle IpcArrayHandle.open IpcArrayHandle.close",
  "open_ipc_array ipcGetMemHandle ipcOpenMemHandle torch.multiprocessing Slurm lsof /proc",
].flatMap((line) => line.split(" "));

/** The code in the column "here" of all tables, each with the line that it stands in. */
function ours(text: string): { place: string; code: string }[] {
  let isMapping = false;
  return text.split("\n").flatMap((line, i) => {
    if (!line.startsWith("|")) return [];
    const [, , here = ""] = line.split("|");
    const isHead = /^\| ?-/.test(text.split("\n")[i + 1] ?? "");
    if (isHead) isMapping = here.trim() === "here";
    if (isHead || !isMapping) return [];
    return [...here.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => ({
      place: `${PAGE}:${i + 1}`,
      code,
    }));
  });
}

function faultsIn(text: string): string[] {
  const [names] = codeBlocks(PAGE);
  assert.ok(names !== undefined);
  const blocks = ours(text).map(
    ({ place, code }): CodeBlock => ({
      place,
      typescript: `${names.typescript}\nexport const use = async () => {\n  void (${code});\n};\n`,
      needsGpu: true,
    }),
  );
  assert.ok(blocks.length >= 50, `only ${blocks.length} expressions`);
  return typeFaults(blocks);
}

describe("docs/coming-from.md", () => {
  it("gives only expressions that pass the compiler", () => {
    assert.deepEqual(faultsIn(page), []);
  });

  it("the check finds an expression that is wrong", () => {
    const wrong = page.replace("`IpcArrayHandle.of(array)`", "`IpcArrayHandle.from()`");
    assert.match(faultsIn(wrong).join(), /^docs\/coming-from\.md:\d+: Expected 1 arguments/);
  });

  it("has every call that people look for", () => {
    assert.deepEqual(
      CALLS.filter((call) => !page.includes(call)),
      [],
    );
  });
});
