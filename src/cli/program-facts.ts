/** What `cuda-ipc --help` and the manual page say about the program as a whole. */

type Rows = readonly (readonly [term: string, text: string])[];

export const purpose = "share GPU and host memory between processes, by name and without a copy";

export const environment: Rows = [
  ["CUDA_IPC_SOCKET", "the hub's socket (default: one in your runtime folder)"],
  ["CUDA_IPC_HUB_UID", "the uid of another user whose hub you trust, besides yours and root's"],
  ["CUDA_IPC_NATS", "the NATS server of bridges, as --nats"],
  ["CUDA_IPC_DEVICE", "the device if --device is not given: auto, host or cuda:N"],
];

export const exitCodes: Rows = [
  ["0", "success"],
  ["1", "failure"],
  ["2", "wrong usage"],
  ["130", "interrupted by Ctrl-C"],
];

export const examples: readonly string[] = [
  "cuda-ipc demo                          see two processes share an array",
  "cuda-ipc put weights model.safetensors",
  "cuda-ipc ls",
  "cuda-ipc get weights copy.safetensors",
];

/** Only in the manual page. */
export const files: Rows = [
  ["$XDG_RUNTIME_DIR/cuda-ipc/hub.sock", "the hub's socket; without XDG_RUNTIME_DIR, the next one"],
  ["/tmp/cuda-ipc-UID/hub.sock", "the hub's socket in the folder for temporary files (TMPDIR)"],
  ["hub.sock.log", "beside the socket: the log of a hub that was started on demand"],
  ["hub.sock.journal", "beside the socket: what the next hub needs if this one is killed"],
  ["~/.config/cuda-ipc/hub.json", "the configuration of your hub (in XDG_CONFIG_HOME, if set)"],
  ["/etc/cuda-ipc/hub.json", "the configuration of root's hub"],
];

/** Follows the help of the program. */
export const helpText = `
Environment:
${environment.map(([name, text]) => `  ${name.padEnd(18)}${text}`).join("\n")}

Examples:
${examples.map((line) => `  $ ${line}`).join("\n")}

Exit codes: ${exitCodes.map((row) => row.join(" ")).join(", ")}`;
