/**
 * A libcuda of two devices, for tests of failing calls. It hands out handles and counts live ones;
 * it moves no data. Any call can fail: a failing acquire acquires nothing, a failing release
 * releases.
 */
import { openSync } from "node:fs";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { cuDeviceAttribute, cuResult } from "../../../../src/ffi/cuda-constants.js";
import { libc } from "../../../../src/ffi/libc.js";
import {
  type LoadLibrary,
  libcudaSymbols,
  type SharedLibrary,
} from "../../../../src/ffi/libcuda.js";
import type { IpcHandleStruct } from "../../../../src/ffi/libcuda-ipc.js";

export interface FakeOptions {
  readonly version?: number;
  /** Symbols missing from the library. */
  readonly missing?: readonly string[];
  /**
   * The status of a call that fails. `nth` counts calls of the same name from 1, `total` all calls.
   */
  readonly status?: (name: string, nth: number, total: number) => number | undefined;
  /** The driver does not know an attribute that is undefined. */
  readonly attributes?: Readonly<Record<number, number | undefined>>;
  /** The location type that an imported handle reports. */
  readonly importedLocationType?: number;
  /** IS_LEGACY_CUDA_IPC_CAPABLE of memory; 1 if it can be shared by handle. */
  readonly legacyCapable?: number;
  /** The limit of every kernel; 64 by default. */
  readonly threadsPerBlockMax?: number;
  /** Whether all handles open one block. */
  readonly oneBlock?: boolean;
}

type Values = readonly unknown[];
const liveKinds = [
  "contexts",
  "memories",
  "reservations",
  "mappings",
  "hostAllocations",
  "registrations",
  "streams",
  "modules",
  "events",
  "allocations",
  "imports",
  "pools",
  "pooled",
] as const;
type Live = (typeof liveKinds)[number];

const MiB = 1024 * 1024;
const FIRST_DEVICE = 70;

export class FakeLibcuda {
  readonly calls: string[] = [];
  readonly live = Object.fromEntries(liveKinds.map((kind) => [kind, 0])) as Record<Live, number>;
  /** Address and size of legacy memory, allocated or imported. */
  readonly blocks = new Map<
    bigint,
    { readonly byteLength: number; readonly handle: string | undefined }
  >();
  /** The contexts that were made current and not popped. The last one is current. */
  readonly contexts: bigint[] = [];
  lastPopped: bigint | undefined;
  /** The values that streams were to wait for and to write. */
  readonly words: bigint[] = [];
  readonly #options: FakeOptions;
  readonly #counts = new Map<string, number>();
  readonly #pooled = new Set<bigint>();
  #next = 0x7000_0000_0000n;

  constructor(options: FakeOptions = {}) {
    this.#options = options;
  }

  readonly load: LoadLibrary = (): SharedLibrary => ({
    func: (symbol) => {
      if (this.#options.missing?.includes(symbol))
        throw new Error(`Cannot find function '${symbol}' in shared library`);
      const name =
        Object.entries(libcudaSymbols).find(([, signature]) => signature.symbol === symbol)?.[0] ??
        symbol;
      return (...values: Values) => this.#call(name, values);
    },
  });

  get everything(): number {
    return Object.values(this.live).reduce((sum, count) => sum + count, 0);
  }

  #call(name: string, values: Values): number {
    this.calls.push(name);
    const nth = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, nth);
    const status = this.#options.status?.(name, nth, this.calls.length);
    const releases = /Free|Release|Unmap|Unregister|Destroy|Unload|Close/.test(name);
    if (status === undefined || releases) this.#do(name, values);
    // Every kernel has one parameter.
    if (status === undefined && name === "cuFuncGetParamInfo" && values[1] !== 0)
      return cuResult.CUDA_ERROR_INVALID_VALUE;
    const { attributes } = this.#options;
    const isUnknown =
      name === "cuDeviceGetAttribute" && Object.hasOwn(attributes ?? {}, values[1] as number);
    if (isUnknown && attributes?.[values[1] as number] === undefined)
      return cuResult.CUDA_ERROR_INVALID_VALUE;
    return status ?? cuResult.CUDA_SUCCESS;
  }

  #do(name: string, values: Values): void {
    const action = this.#actions[name];
    if (action !== undefined) action(values);
    else if (!name.startsWith("cu"))
      throw new CudaIpcError("SYSTEM_ERROR", `no such function: ${name}`);
  }

  #handle(out: unknown, live: Live): void {
    (out as BigUint64Array)[0] = this.#next;
    this.#next += BigInt(64 * MiB);
    this.live[live] += 1;
  }

  #hostAlloc(out: unknown, byteLength: number): void {
    const [PROT, MAP] = [3, 0x22];
    (out as BigUint64Array)[0] = libc().mmap(null, byteLength, PROT, MAP, -1, 0);
    this.live.hostAllocations += 1;
  }

  readonly #actions: Record<string, (values: Values) => unknown> = {
    cuDriverGetVersion: ([out]) => set32(out, this.#options.version ?? 13_000),
    cuDeviceGetCount: ([out]) => set32(out, 2),
    // The device number differs from the ordinal, so that mixing them up fails a test.
    cuDeviceGet: ([out, ordinal]) => set32(out, (ordinal as number) + FIRST_DEVICE),
    cuDeviceGetName: ([out]) => (out as Uint8Array).set(new TextEncoder().encode("Fake GPU\0")),
    cuDeviceGetUuid: ([out]) =>
      (out as Uint8Array).set(Uint8Array.from({ length: 16 }, (_, i) => i * 16 + i)),
    cuDeviceTotalMem: ([out]) => set64(out, BigInt(64 * MiB)),
    cuDeviceGetAttribute: ([out, attribute]) => {
      const { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: major } = cuDeviceAttribute;
      set32(out, this.#options.attributes?.[attribute as number] ?? (attribute === major ? 9 : 1));
    },
    cuDevicePrimaryCtxRetain: ([out]) => this.#handle(out, "contexts"),
    cuDevicePrimaryCtxRelease: () => this.#drop("contexts"),
    cuCtxPushCurrent: ([context]) => this.contexts.push(context as bigint),
    cuCtxPopCurrent: () => {
      this.lastPopped = this.contexts.pop();
    },
    cuMemGetInfo: ([free, total]) => {
      set64(free, BigInt(32 * MiB));
      set64(total, BigInt(64 * MiB));
    },
    cuMemGetAllocationGranularity: ([out]) => set64(out, BigInt(2 * MiB)),
    cuMemCreate: ([out, , properties]) => {
      checkDevice(properties, 12);
      this.#handle(out, "memories");
    },
    cuMemSetAccess: ([, , descriptor]) => checkDevice(descriptor, 4),
    cuStreamWaitValue64: ([, , value]) => this.words.push(BigInt(value as number | bigint)),
    cuStreamWriteValue64: ([, , value]) => this.words.push(BigInt(value as number | bigint)),
    cuMemImportFromShareableHandle: ([out]) => this.#handle(out, "memories"),
    cuMemGetAllocationPropertiesFromHandle: ([out]) => {
      new DataView((out as Uint8Array).buffer).setInt32(
        8,
        this.#options.importedLocationType ?? 1,
        true,
      );
    },
    // Without close-on-exec, because the driver does not promise it.
    cuMemExportToShareableHandle: ([out]) => set32(out, openInherited()),
    cuMemPoolExportToShareableHandle: ([out]) => set32(out, openInherited()),
    cuMemPoolCreate: ([out, properties]) => {
      checkDevice(properties, 12);
      this.#handle(out, "pools");
    },
    cuMemPoolImportFromShareableHandle: ([out]) => this.#handle(out, "pools"),
    cuMemPoolDestroy: () => this.#drop("pools"),
    cuMemPoolSetAccess: ([, descriptor]) => checkDevice(descriptor, 4),
    cuMemAllocFromPoolAsync: ([out]) => this.#pooledMemory(out),
    cuMemPoolImportPointer: ([out]) => this.#pooledMemory(out),
    cuMemFreeAsync: ([pointer]) => this.#freePooled(pointer),
    cuMemRelease: () => this.#drop("memories"),
    cuMemAddressReserve: ([out]) => this.#handle(out, "reservations"),
    cuMemAddressFree: () => this.#drop("reservations"),
    cuMemMap: () => {
      this.live.mappings += 1;
    },
    cuMemUnmap: () => this.#drop("mappings"),
    cuMemHostAlloc: ([out, byteLength]) => this.#hostAlloc(out, byteLength as number),
    cuMemFreeHost: () => this.#drop("hostAllocations"),
    cuMemHostRegister: () => {
      this.live.registrations += 1;
    },
    cuMemHostUnregister: () => this.#drop("registrations"),
    cuMemHostGetDevicePointer: ([out, pointer]) => set64(out, (pointer as bigint) + 0x1_0000_0000n),
    cuStreamCreate: ([out]) => this.#handle(out, "streams"),
    cuStreamDestroy: () => this.#drop("streams"),
    cuModuleLoadDataEx: ([out]) => this.#handle(out, "modules"),
    cuModuleUnload: () => this.#drop("modules"),
    cuModuleGetFunction: ([out]) => set64(out, 0x1234n),
    cuFuncGetAttribute: ([out]) => set32(out, this.#options.threadsPerBlockMax ?? 64),
    cuFuncGetParamInfo: ([, , offset, size]) => {
      set64(offset, 0n);
      set64(size, 8n);
    },
    cuEventCreate: ([out]) => this.#handle(out, "events"),
    cuEventDestroy: () => this.#drop("events"),
    cuIpcGetEventHandle: ([out, event]) => writeHandle(out, event as bigint),
    cuIpcOpenEventHandle: ([out]) => this.#handle(out, "events"),
    cuMemAlloc: ([out, byteLength]) => {
      this.#handle(out, "allocations");
      this.blocks.set((out as BigUint64Array)[0] as bigint, {
        byteLength: byteLength as number,
        handle: undefined,
      });
    },
    cuMemFree: ([pointer]) => {
      if (this.blocks.delete(pointer as bigint)) this.#drop("allocations");
      else this.#freePooled(pointer);
    },
    cuMemGetAddressRange: ([start, byteLength, pointer]) => {
      if (this.#pooled.has(pointer as bigint)) {
        set64(start, pointer as bigint);
        set64(byteLength, BigInt(MiB));
        return;
      }
      const block = this.#blockAt(pointer as bigint);
      set64(start, block[0]);
      set64(byteLength, BigInt(block[1].byteLength));
    },
    cuPointerGetAttribute: ([out]) => {
      (out as Uint32Array)[0] = this.#options.legacyCapable ?? 1;
    },
    cuIpcGetMemHandle: ([out, pointer]) => writeHandle(out, pointer as bigint),
    cuIpcOpenMemHandle: ([out, handle]) => {
      const text = Buffer.from((handle as IpcHandleStruct).reserved).toString("hex");
      const known = [...this.blocks].find(
        ([, block]) => this.#options.oneBlock || block.handle === text,
      );
      this.live.imports += 1;
      if (known !== undefined) {
        set64(out, known[0]);
        return;
      }
      set64(out, this.#next);
      this.blocks.set(this.#next, { byteLength: 4 * MiB, handle: text });
      this.#next += BigInt(64 * MiB);
    },
    cuIpcCloseMemHandle: () => this.#drop("imports"),
  };

  #blockAt(pointer: bigint): [bigint, { readonly byteLength: number }] {
    for (const [start, block] of this.blocks) {
      if (pointer >= start && pointer < start + BigInt(block.byteLength)) return [start, block];
    }
    throw new Error(`no block at ${pointer}`);
  }

  #pooledMemory(out: unknown): void {
    this.#handle(out, "pooled");
    this.#pooled.add((out as BigUint64Array)[0] as bigint);
  }

  #freePooled(pointer: unknown): void {
    if (this.#pooled.delete(pointer as bigint)) this.#drop("pooled");
  }

  #drop(live: Live): void {
    this.live[live] -= 1;
  }
}

/** Makes a handle like a driver's, with the pid at byte 8. */
function writeHandle(out: unknown, value: bigint): void {
  const bytes = out as Uint8Array;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setUint32(8, process.pid, true);
  view.setBigUint64(16, value, true);
}

function checkDevice(struct: unknown, offset: number): void {
  const device = new DataView((struct as Uint8Array).buffer).getInt32(offset, true);
  if (device < FIRST_DEVICE) throw new Error(`${device} is an ordinal, not a device`);
}

/** Opens a descriptor without close-on-exec, as drivers may do. */
function openInherited(): number {
  const F_SETFD = 2;
  const fd = openSync("/dev/null", "r");
  libc().fcntl(fd, F_SETFD, 0);
  return fd;
}

function set32(out: unknown, value: number): void {
  (out as Int32Array)[0] = value;
}

function set64(out: unknown, value: bigint): void {
  (out as BigUint64Array)[0] = value;
}

/** A driver on a fake library. */
export function openFake(options: FakeOptions = {}): {
  readonly fake: FakeLibcuda;
  readonly driver: GpuDriver;
} {
  const fake = new FakeLibcuda(options);
  return { fake, driver: createCudaDriver({ load: fake.load }) };
}

/** Makes every call of one function fail with a status. */
export function failing(call: string, status: number): FakeOptions {
  return { status: (name) => (name === call ? status : undefined) };
}
