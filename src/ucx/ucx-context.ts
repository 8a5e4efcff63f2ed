/** UCX in this process: the opened library, its configuration, and the transports it has here. */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { type Libucp, printTo } from "../ffi/libucp.js";
import { type FoundLibucp, openLibucp } from "../ffi/libucp-search.js";
import { readFilePart } from "../os/file-calls.js";
import { createMemoryFile } from "../os/memory-file.js";
import { OwnedFd } from "../os/owned-fd.js";
import { checkLocalStatus } from "./ucx-status.js";
import { contextParams } from "./ucx-structs.js";
import { hasFasterNetwork, tuneForTcp } from "./ucx-tuning.js";

/** The version of the C interface that the calls are made for. */
const API = { major: 1, minor: 13 } as const;
const DESCRIPTION_BYTES_MAX = 1024 * 1024;

export class UcxContext {
  readonly path: string;
  readonly version: string;
  readonly functions: Libucp;
  readonly #handle: bigint;
  #open = true;

  private constructor({ path, version, functions }: FoundLibucp, handle: bigint) {
    this.path = path;
    this.version = version;
    this.functions = functions;
    this.#handle = handle;
  }

  /**
   * @param networkInterface the only one that it uses, as in `interfaceNames`; default: all of them
   * @throws ENGINE_NOT_FOUND; UNSUPPORTED if UCX finds no usable device; SYSTEM_ERROR
   */
  static open(networkInterface?: string): UcxContext {
    const found = openLibucp();
    const context = UcxContext.#start(found, networkInterface, true);
    const transports = context.transports();
    const isUsed = networkInterface === undefined || usesInterface(transports, networkInterface);
    if (isUsed && !hasFasterNetwork(transports)) return context;
    context.close();
    if (!isUsed) throw unusable(networkInterface);
    return UcxContext.#start(found, networkInterface, false);
  }

  static #start(
    found: FoundLibucp,
    networkInterface: string | undefined,
    isTuned: boolean,
  ): UcxContext {
    const { functions } = found;
    return acquireIn((scope) => {
      const config = new BigUint64Array(new ArrayBuffer(8));
      const attempt = "read the configuration of UCX";
      checkLocalStatus(attempt, functions.ucp_config_read(null, null, config));
      const configuration = config[0] ?? 0n;
      const context = new BigUint64Array(new ArrayBuffer(8));
      try {
        if (networkInterface !== undefined)
          checkLocalStatus(
            `choose the interface "${networkInterface}"`,
            functions.ucp_config_modify(configuration, "NET_DEVICES", networkInterface),
          );
        if (isTuned) tuneForTcp(functions, configuration);
        const params = contextParams();
        checkLocalStatus(
          "start UCX",
          functions.ucp_init_version(API.major, API.minor, params, configuration, context),
        );
      } finally {
        functions.ucp_config_release(configuration);
      }
      const handle = scope.own(context[0] ?? 0n, (it) => functions.ucp_cleanup(it));
      return new UcxContext(found, handle);
    });
  }

  /** For `UcxWorker`. */
  get handle(): bigint {
    return this.#handle;
  }

  /** What UCX could use here, as `tcp/eth0`. It also depends on the other machine. */
  transports(): readonly string[] {
    return transportsIn(this.#describe());
  }

  /** Close its workers first. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.functions.ucp_cleanup(this.#handle);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** UCX prints its resources to a FILE only. */
  #describe(): string {
    using file = createMemoryFile("cuda-ipc-ucx", DESCRIPTION_BYTES_MAX);
    const number = file.duplicate().take();
    const isPrinted = printTo(number, (stream) =>
      this.functions.ucp_context_print_info(this.#handle, stream),
    );
    if (!isPrinted) new OwnedFd(number).close();
    const bytes = Buffer.alloc(DESCRIPTION_BYTES_MAX);
    readFilePart(file, bytes, 0);
    return bytes.toString("utf8", 0, bytes.indexOf(0));
  }
}

function usesInterface(transports: readonly string[], networkInterface: string): boolean {
  return transports.some((name) => name.endsWith(`/${networkInterface}`));
}

function unusable(networkInterface: string): CudaIpcError {
  const message = `Cannot use the interface "${networkInterface}": UCX has no transport for it`;
  const remedy =
    "Name another one. UCX_TLS, if set, must allow a transport of the interface. For a bridge " +
    "device of Linux, such as docker0, set UCX_TCP_BRIDGE_ENABLE=y.";
  return new CudaIpcError("UNSUPPORTED", message, { remedy });
}

/** The resources in the text of `ucp_context_print_info`: `# resource 1: ... -- tcp/eth0`. */
export function transportsIn(text: string): readonly string[] {
  const found = text.matchAll(/^#\s+resource\s+\d+\s*:.*\s(\S+\/\S+)\s*$/gm);
  return [...new Set([...found].map((match) => match[1] ?? ""))];
}
