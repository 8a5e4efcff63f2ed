/**
 * The closed table of error codes: what each means, what to do, and whether a retry can help. The
 * command line prints `remedy` as a hint. docs/reference.md shows the table.
 */

export interface ErrorCodeFacts {
  readonly meaning: string;
  readonly remedy: string;
  /** True if the same call may succeed later without any change by the caller. */
  readonly retryable: boolean;
}

function facts(meaning: string, remedy: string, retryable = false): ErrorCodeFacts {
  return { meaning, remedy, retryable };
}

export const errorCodes = {
  // The caller's own state
  CLOSED: facts("The object was closed before this call.", "Keep it open while you use it."),
  ABORTED: facts(
    "The AbortSignal given to the call was aborted.",
    "Nothing: the signal asked for this.",
  ),
  TIMEOUT: facts(
    "The time limit given to the call ran out.",
    "Raise timeoutMs, or find out why the other side is late.",
    true,
  ),
  READ_ONLY: facts(
    "A write to memory that this process may only read.",
    'Open it with { access: "read-write" }, unless the message says that it was shared read-only.',
  ),

  // Names and objects on the hub
  INVALID_NAME: facts(
    "The name is invalid.",
    "Use 1 to 255 letters, digits, '.', '_', '-' or ':', the first a letter, digit or '_'.",
  ),
  NAME_TAKEN: facts(
    "Another object has this name.",
    "Remove it first (cuda-ipc rm NAME) or choose another name.",
  ),
  NOT_FOUND: facts(
    "No object of this name is shared, or there is no such client.",
    "See what is shared with: cuda-ipc ls; and clients with: cuda-ipc top",
    true,
  ),
  WRONG_KIND: facts(
    "The object is of another kind than requested.",
    "See its kind with: cuda-ipc inspect NAME",
  ),
  NOT_OWNER: facts(
    "Only the client that created the object may do this.",
    "Do it from the process that created it.",
  ),
  PEER_GONE: facts(
    "The process on the other side has ended.",
    "Start it again. What it had published is still readable.",
    true,
  ),

  // Channels
  CHANNEL_FULL: facts(
    'All slots of the channel are taken, and its whenFull is "error".',
    "Try again when a reader has released a slot, or create it with more slots.",
    true,
  ),
  READERS_FULL: facts(
    "The channel has as many readers as it allows.",
    "Close a reader, or create the channel with a larger readersMax.",
    true,
  ),
  CHANNEL_CORRUPT: facts(
    "The other side wrote invalid words into the channel's memory.",
    "Find out which process wrote them. The writer has to create the channel again.",
  ),
  READER_EXPELLED: facts(
    "The writer expelled this reader, because its page held invalid words.",
    "Open the channel again. If it recurs, code in the reader's process writes to wrong memory.",
  ),

  // Services
  REQUEST_FAILED: facts(
    "The worker's handler threw an error. The message quotes it.",
    "Look at the worker. The same request is likely to fail again.",
  ),

  // Talking to the hub
  HUB_UNAVAILABLE: facts(
    "No hub answers and none could be started.",
    "Run `cuda-ipc hub serve`, which starts a hub or says why it cannot.",
    true,
  ),
  HUB_GONE: facts(
    "The hub was stopped, none was found in time, or the next one has lost the object.",
    "Connect again. Mapped memory stays usable.",
    true,
  ),
  DISCONNECTED: facts(
    "Somebody ended this client's session on the hub.",
    "Call connect() again if the program should go on. Mapped memory stays usable.",
  ),
  HUB_RUNNING: facts(
    "A hub already runs on this socket.",
    "Use it, or end it with: cuda-ipc hub stop",
  ),
  HUB_IN_USE: facts(
    "The hub still keeps objects or serves clients.",
    "Pass --force to end it. Mapped memory stays usable.",
  ),
  NO_KEEPER: facts(
    "The hub has no keeper and no service manager to start the next hub.",
    "End it with `cuda-ipc hub stop`. connect() and `cuda-ipc hub serve` start hubs with a keeper.",
  ),
  PROTOCOL_MISMATCH: facts(
    "The two sides speak different versions.",
    "Install the same version of cuda-ipc on both.",
  ),
  INVALID_MESSAGE: facts(
    "A message violates the protocol.",
    "Check the client against docs/protocol.md.",
  ),
  MESSAGE_TOO_LARGE: facts(
    "A message exceeds the protocol's limit.",
    "Send less at once. See docs/protocol.md.",
  ),
  INVALID_DESCRIPTOR: facts(
    "A descriptor contradicts itself or its memory.",
    "Check the process that made it. Nothing was mapped.",
  ),
  LIMIT_EXCEEDED: facts(
    "The call would exceed a limit.",
    "The message names the limit. Free something or use less.",
    true,
  ),
  UNTRUSTED_PEER: facts(
    "The process on the other side runs as another user.",
    "Run both sides as the same user, or use a hub that serves several (docs/guide.md).",
  ),
  UNSAFE_RUNTIME_DIR: facts(
    "Other users could change the folder of the hub's socket.",
    "Make the folder private (chown, chmod 700), or set CUDA_IPC_SOCKET to a path in a " +
      "private one. For a hub of another user, set CUDA_IPC_HUB_UID to its uid.",
  ),
  SOCKET_PATH_TOO_LONG: facts(
    "The socket path is longer than the system's 107 bytes.",
    "Set CUDA_IPC_SOCKET to a shorter path.",
  ),

  // Several machines
  BRIDGE_UNAVAILABLE: facts(
    "No bridge of this user runs beside the hub, so other machines cannot be asked.",
    "Start one with: cuda-ipc bridge --nats URL --interface NAME",
    true,
  ),
  BRIDGE_RUNNING: facts(
    "Another bridge serves this hub, or uses this machine's name.",
    "Use that one, or choose another name with --machine.",
  ),
  NATS_UNAVAILABLE: facts(
    "The NATS server does not answer, refuses the bridge, or lacks JetStream.",
    "Check --nats and the credentials. The server must be 2.11 or newer and run with -js.",
    true,
  ),
  ENGINE_NOT_FOUND: facts(
    "A library that connects machines is missing: UCX, or the client of NATS.",
    "Install what the message names. See docs/machines.md.",
  ),

  // Handles, events and groups
  INVALID_HANDLE: facts(
    "The driver does not know this handle: it is damaged, freed, or of a process that has ended.",
    "Export it again from a process that runs and holds the memory.",
  ),
  OWN_HANDLE: facts(
    "A handle was opened in the process that exported it.",
    "Use the object itself there. A handle is for other processes.",
  ),
  OTHER_PID_NAMESPACE: facts(
    "The handle names a process in another PID namespace, such as another container.",
    "Share by the hub or by share(), which send descriptors. See docs/containers.md.",
  ),
  STALE_HANDLE: facts(
    "The handle's memory was freed, its process has ended, or it is of another machine or boot.",
    "Export it again. The old handle never becomes valid.",
  ),
  IN_USE: facts(
    "Something is still in use: imports of memory to be freed, old memory under the same " +
      "handle, a loaned slot, a wait under way, or a channel that has a writer.",
    "End what the message names: close it, commit or give back the slot, " +
      "or await the earlier call (a signal or timeoutMs ends it).",
    true,
  ),
  EVENT_NOT_RECORDED: facts(
    "The event was never announced as recorded, so the GPU would not wait for it.",
    "Send the event's descriptor after recording it, or use a timeline.",
    true,
  ),
  BARRIER_BROKEN: facts(
    "Another member gave up on the barrier, so it can never complete.",
    "Join a new group.",
  ),
  NO_RANK: facts(
    "No launcher has given this process a rank.",
    "Start it with srun or mpirun, or pass rank and size yourself.",
  ),
  INVALID_RANK: facts(
    "The variables of a launcher do not give this process a usable rank.",
    "The message names the variable. Unset it, or pass rank and size yourself.",
  ),
  PEER_ACCESS_UNSUPPORTED: facts(
    "One GPU cannot use the memory of another.",
    "See `nvidia-smi topo -p2p r`. Copy between the devices instead.",
  ),

  // Code for the GPU
  INVALID_MODULE: facts(
    "The driver does not load this PTX or cubin.",
    "The driver's log in the message says where.",
  ),
  KERNEL_NOT_FOUND: facts(
    "The module has no kernel of this name.",
    'Declare it extern "C" and check the spelling.',
  ),
  KERNEL_ARGUMENTS: facts(
    "The arguments of a launch are not those of the kernel.",
    "Compare their number and types with the kernel's declaration.",
  ),
  COMPILE_FAILED: facts(
    "The source does not compile.",
    "The compiler's log in the message has the line numbers.",
  ),
  NVRTC_NOT_FOUND: facts(
    "The run-time compiler's library could not be opened.",
    "Install it (CUDA toolkit, or pip install nvidia-cuda-nvrtc) and set CUDA_IPC_NVRTC, " +
      "or load PTX.",
  ),

  // Files and values
  INVALID_FILE: facts(
    "A file is missing, unreadable, or violates its format.",
    "Check the path. Write a damaged file again with a current numpy or safetensors.",
  ),
  FILE_EXISTS: facts(
    "The file to be written already exists.",
    "Choose another name, or replace it with { force: true } or --force.",
  ),
  UNSUPPORTED_DTYPE: facts(
    "The element type is not supported here.",
    "See the table of dtypes in docs/reference.md.",
  ),
  VERIFICATION_FAILED: facts(
    "The data read back differs from what was written.",
    "Report it with the output of `cuda-ipc doctor`.",
  ),

  // Devices and drivers
  INVALID_DEVICE: facts(
    'The device name is not "host", "auto", "cuda:N" or "N".',
    "Correct the option device, --device or CUDA_IPC_DEVICE.",
  ),
  DEVICE_NOT_FOUND: facts(
    "This process sees no such device.",
    "See `cuda-ipc doctor` and CUDA_VISIBLE_DEVICES.",
  ),
  DRIVER_NOT_FOUND: facts(
    "The CUDA driver's library could not be opened.",
    'Install the NVIDIA driver, or use device "host".',
  ),
  DRIVER_TOO_OLD: facts(
    "The CUDA driver lacks a required function.",
    "Install NVIDIA driver 525 or newer.",
  ),
  UNSUPPORTED: facts(
    "This device or system does not support the call.",
    "`cuda-ipc doctor` shows what it supports and why.",
  ),
  OUT_OF_MEMORY: facts(
    "The device or the machine has too little free memory.",
    "Free memory or ask for less.",
    true,
  ),
  DEVICE_LOST: facts(
    "A fault on the GPU ended this process's context.",
    "Restart this process. Memory shared with others is unharmed.",
  ),
  MPS_UNAVAILABLE: facts(
    "The MPS server takes no client: it does not answer, recovers from a fault, or is full.",
    "Try again in a while. control.log and server.log in CUDA_MPS_LOG_DIRECTORY say why.",
    true,
  ),
  CUDA_ERROR: facts(
    "The CUDA driver refused a call.",
    "The message has the driver's own name of the error.",
  ),

  // The operating system
  TOO_MANY_FDS: facts(
    "The table of open files is full.",
    "Close something, or raise the limit (ulimit -n).",
    true,
  ),
  DISK_FULL: facts("No space is left on the device written to.", "Free space there.", true),
  PERMISSION_DENIED: facts(
    "The operating system or the hub does not allow this user to do it.",
    "Check the owner, mode and sharing of the object in the message.",
  ),
  SYSTEM_ERROR: facts(
    "A system call failed.",
    "The message has the system's own name of the error.",
  ),
} as const satisfies Record<string, ErrorCodeFacts>;

export type ErrorCode = keyof typeof errorCodes;

export function isErrorCode(value: string): value is ErrorCode {
  return Object.hasOwn(errorCodes, value);
}
