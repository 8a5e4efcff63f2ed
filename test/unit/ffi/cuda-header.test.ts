import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cuDeviceAttribute, cuResult, cuValue } from "../../../src/ffi/cuda-constants.js";
import { structLayouts } from "../../../src/ffi/cuda-structs.js";
import { libcudaSymbols } from "../../../src/ffi/libcuda.js";
import { findCudaHeader } from "./cuda-header.js";

/** The koffi types for each C type. A new C type must be added here. */
const passedAs = new Map<string, string>([
  ["int", "int"],
  ["CUdevice", "int"],
  ["CUresult", "int"],
  ["CUdevice_attribute", "int"],
  ["CUmemAllocationHandleType", "int"],
  ["CUmemAllocationGranularity_flags", "int"],
  ["unsigned int", "uint"],
  ["unsigned char", "uint8"],
  ["unsigned short", "uint16"],
  ["size_t", "size_t"],
  ["unsigned long long", "uint64"],
  ["cuuint64_t", "uint64"],
  ["CUdeviceptr", "uint64"],
  ["CUmemGenericAllocationHandle", "uint64"],
  ["CUcontext", "void*"],
  ["CUstream", "void*"],
  ["CUevent", "void*"],
  ["CUmemoryPool", "void*"],
  ["CUmodule", "void*"],
  ["CUfunction", "void*"],
  ["CUpointer_attribute", "int"],
  ["CUmemPool_attribute", "int"],
  ["CUfunction_attribute", "int"],
  ["CUipcMemHandle", "CUipcHandle"],
  ["CUipcEventHandle", "CUipcHandle"],
]);

const header = findCudaHeader();
const names = Object.entries(libcudaSymbols);

if (typeof header === "string") {
  it("agrees with cuda.h", {
    skip: process.env.REQUIRE_CUDA_HEADER === "1" ? false : header,
  }, () => {
    assert.fail(header);
  });
} else {
  describe("agrees with cuda.h", () => {
    it("in every enumerator and flag", () => {
      const ours = new Map<string, number>(
        Object.entries({ ...cuResult, ...cuDeviceAttribute, ...cuValue }),
      );
      assert.deepEqual(
        header.evaluate(new Map([...ours.keys()].map((name) => [name, name]))),
        ours,
      );
    });

    it("in the size and every offset of every struct", () => {
      const ours = new Map<string, number>();
      const expressions = new Map<string, string>();
      for (const [struct, layout] of Object.entries(structLayouts)) {
        ours.set(struct, layout.byteLength);
        expressions.set(struct, `sizeof(${struct})`);
        for (const [field, offset] of Object.entries(layout.offsets)) {
          ours.set(`${struct}.${field}`, offset);
          expressions.set(`${struct}.${field}`, `offsetof(${struct}, ${field})`);
        }
      }
      assert.deepEqual(header.evaluate(expressions), ours);
    });

    it("in the width of every parameter type", () => {
      const widths: Record<string, number> = {
        int: 4,
        uint: 4,
        uint8: 1,
        uint16: 2,
        size_t: 8,
        uint64: 8,
        "void*": 8,
        CUipcHandle: 64,
      };
      const expressions = new Map([...passedAs.keys()].map((type) => [type, `sizeof(${type})`]));
      const expected = new Map([...passedAs].map(([type, as]) => [type, widths[as]]));
      assert.deepEqual(header.evaluate(expressions), expected);
    });

    it("in the symbol of every name", () => {
      const ours = new Map(names.map(([name, { symbol }]) => [name, symbol]));
      assert.deepEqual(header.expand([...ours.keys()]), ours);
    });

    it("in the parameters of every function", () => {
      const declared = header.parameters(names.map(([, { symbol }]) => symbol));
      for (const [name, { symbol, parameters }] of names) {
        const types = declared.get(symbol);
        assert.ok(types !== undefined, `${name}: ${symbol} is not declared`);
        const expected = types.map((type) => {
          if (type === "const char *") return "str";
          return type.endsWith("*") ? "void*" : (passedAs.get(type) ?? `unknown ${type}`);
        });
        assert.deepEqual(parameters, expected, name);
      }
    });
  });
}
