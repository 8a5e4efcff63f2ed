/**
 * The closed table of error codes: what each means, what to do about it, and whether trying again can help.
 * The command line prints `remedy` as the hint; docs/reference.md lists the table.
 */

export interface ErrorCodeFacts {
  readonly meaning: string;
  readonly remedy: string;
  /** True where the same call may succeed later without anything being changed by the caller. */
  readonly retryable: boolean;
}

function facts(meaning: string, remedy: string, retryable = false): ErrorCodeFacts {
  return { meaning, remedy, retryable };
}

export const errorCodes = {
  // The caller's own state
  CLOSED: facts("The object was closed before this call.", "Keep it open for as long as it is used."),
  ABORTED: facts("The AbortSignal given to the call was aborted.", "Nothing; this is what the signal asked for."),
  TIMEOUT: facts(
    "The time limit given to the call ran out.",
    "Raise timeoutMs, or find out why the other side is late.",
    true,
  ),
  READ_ONLY: facts(
    "A write to memory that is here for reading alone.",
    'Open it with { access: "read-write" }, unless the message says that it was given for reading alone.',
  ),

  // Names and objects on the hub
  INVALID_NAME: facts(
    "A name that the hub does not take.",
    "Use 1 to 255 bytes of letters, digits, '.', '_', '-' and ':' that start with a letter, digit or '_'.",
  ),
  NAME_TAKEN: facts("Another object has this name.", "Remove it first (cuda-ipc rm NAME) or choose another name."),
  NOT_FOUND: facts("No object of this name is shared.", "See what is shared with: cuda-ipc ls", true),
  WRONG_KIND: facts("The object is not of the kind that was asked for.", "See what it is with: cuda-ipc inspect NAME"),
  NOT_OWNER: facts("Only the client that created the object may do this.", "Do it from the process that created it."),
  PEER_GONE: facts(
    "The process on the other side ended.",
    "Start it again; what it had published is still readable.",
    true,
  ),

  // Channels
  CHANNEL_FULL: facts(
    "All slots of the channel are held by its readers, and it was made to say so instead of waiting.",
    "Try again when a reader has released a slot, or create it with more slots or another whenFull.",
    true,
  ),
  READERS_FULL: facts(
    "All places of the channel are taken by readers.",
    "Close a reader, or create the channel with a larger readersMax.",
    true,
  ),
  CHANNEL_CORRUPT: facts(
    "What the other side wrote into the channel's memory makes no sense.",
    "Find out who writes there; the writer has to create the channel anew.",
  ),
  READER_EXPELLED: facts(
    "The writer looks at this reader no more: what the reader wrote into its page made no sense.",
    "Open the channel anew; if it happens again, something in the reader's process writes where it should not.",
  ),

  // Services
  REQUEST_FAILED: facts(
    "The worker's handler threw an error; the message has its words.",
    "See the worker; the same request is likely to fail again.",
  ),

  // Talking to the hub
  HUB_UNAVAILABLE: facts("No hub answers and none could be started.", "Run `cuda-ipc hub serve` to see why.", true),
  HUB_GONE: facts(
    "The hub was stopped, no other was found in time, or the next one has lost what this was about.",
    "Connect again; what is mapped stays usable.",
    true,
  ),
  HUB_RUNNING: facts("A hub already runs on this socket.", "Use it, or end it with: cuda-ipc hub stop"),
  HUB_IN_USE: facts(
    "The hub still keeps objects or serves clients.",
    "Pass --force to end it all the same; what is mapped stays.",
  ),
  NO_KEEPER: facts(
    "The hub has neither a keeper nor a service manager that would start the next hub.",
    "End it with `cuda-ipc hub stop`; connect() and `cuda-ipc hub serve` start hubs with a keeper.",
  ),
  PROTOCOL_MISMATCH: facts("The two sides speak different versions.", "Bring both to the same version of cuda-ipc."),
  INVALID_MESSAGE: facts("A message that is not of the protocol.", "Check the client against docs/protocol.md."),
  MESSAGE_TOO_LARGE: facts("A message over the limit of the protocol.", "Send less at once; see docs/protocol.md."),
  INVALID_DESCRIPTOR: facts(
    "A descriptor that contradicts itself or its memory.",
    "Check who made it; nothing was mapped.",
  ),
  LIMIT_EXCEEDED: facts(
    "A limit of this program would be exceeded.",
    "The message names the limit; free something or use less.",
    true,
  ),
  UNTRUSTED_PEER: facts(
    "The process on the other side runs as another user.",
    "Run both sides as the same user, or use a hub that serves several (docs/guide.md).",
  ),
  UNSAFE_RUNTIME_DIR: facts(
    "The folder of the hub's socket could be changed by others.",
    "Make it yours alone (chown, chmod 700), or set CUDA_IPC_SOCKET to a path in a folder that is. Of a hub for several users: name its user in CUDA_IPC_HUB_UID.",
  ),
  SOCKET_PATH_TOO_LONG: facts(
    "The socket path is over the system's 107 bytes.",
    "Set CUDA_IPC_SOCKET to a shorter path.",
  ),

  // Handles, events and groups
  INVALID_HANDLE: facts(
    "A handle that the driver does not know: damaged, freed, or of a process that ended.",
    "Export it again from a process that still runs and holds the memory.",
  ),
  OWN_HANDLE: facts(
    "A handle was opened in the process that exported it.",
    "Use the object itself there; a handle is for other processes.",
  ),
  OTHER_PID_NAMESPACE: facts(
    "The handle names a process of another PID namespace, as in another container, where its number means nothing here.",
    "Share by the hub or by a document of memory, which travel as descriptors; see docs/containers.md.",
  ),
  STALE_HANDLE: facts(
    "A handle of memory that was freed since, of a process that ended, or of another machine or an earlier boot.",
    "Export it again; the old one will never be valid.",
  ),
  IN_USE: facts(
    "Something older is still there: imports of what was to be freed, freed memory under the handle that was to be imported, a slot that is lent, a wait that is under way, or the writer of a channel.",
    "End what the message names first: close it, commit or give back the slot, or await the call before (a signal or timeoutMs ends it).",
    true,
  ),
  EVENT_NOT_RECORDED: facts(
    "An event was waited for that has not been announced as recorded; the GPU would not wait at all.",
    "Send the event's descriptor after recording it, or use a timeline.",
    true,
  ),
  BARRIER_BROKEN: facts("Another member gave up on the barrier, so it can never be complete.", "Join a new group."),
  PEER_ACCESS_UNSUPPORTED: facts(
    "One GPU cannot use the memory of another.",
    "See `nvidia-smi topo -p2p r`; copy between the devices instead.",
  ),

  // Code for the GPU
  INVALID_MODULE: facts("PTX or a cubin that the driver does not load.", "The driver's log in the message says where."),
  KERNEL_NOT_FOUND: facts("The module has no kernel of this name.", 'Declare it extern "C" and check the spelling.'),
  KERNEL_ARGUMENTS: facts(
    "The arguments of a launch are not those of the kernel.",
    "Compare their number and types with the kernel's declaration.",
  ),
  COMPILE_FAILED: facts("The source does not compile.", "The compiler's log in the message has the line numbers."),
  NVRTC_NOT_FOUND: facts(
    "The run-time compiler's library could not be opened.",
    "Install it (CUDA toolkit, or pip install nvidia-cuda-nvrtc) and set CUDA_IPC_NVRTC to its path, or load PTX instead.",
  ),

  // Files and values
  INVALID_FILE: facts(
    "A file that is missing, unreadable or not what its format demands.",
    "Check the path; a damaged file is mended by writing it again with a current numpy or safetensors.",
  ),
  FILE_EXISTS: facts(
    "The file to be written is already there.",
    "Choose another name, or replace it with { force: true } or --force.",
  ),
  UNSUPPORTED_DTYPE: facts(
    "An element type that is not supported here.",
    "See the table of dtypes in docs/reference.md.",
  ),
  VERIFICATION_FAILED: facts(
    "Data read back differ from what was written.",
    "Report it with the output of `cuda-ipc doctor`.",
  ),

  // Devices and drivers
  INVALID_DEVICE: facts('A device name other than "host", "auto" or "cuda:N".', "Correct --device or CUDA_IPC_DEVICE."),
  DEVICE_NOT_FOUND: facts("This process sees no such device.", "See `cuda-ipc doctor` and CUDA_VISIBLE_DEVICES."),
  DRIVER_NOT_FOUND: facts(
    "The CUDA driver's library could not be opened.",
    'Install the NVIDIA driver, or use device "host".',
  ),
  DRIVER_TOO_OLD: facts("The CUDA driver lacks a function that is needed.", "Install NVIDIA driver 525 or newer."),
  UNSUPPORTED: facts("This device or system cannot do that.", "`cuda-ipc doctor` says what it can do and why."),
  OUT_OF_MEMORY: facts("The device or the machine has not enough free memory.", "Free memory or ask for less.", true),
  DEVICE_LOST: facts(
    "A fault on the GPU ended this process's context.",
    "Restart this process; memory shared with others is unharmed.",
  ),
  MPS_UNAVAILABLE: facts(
    "The MPS server takes no client: it does not answer, recovers from a fault, or has as many as it may have.",
    "Try again in a while; control.log and server.log in CUDA_MPS_LOG_DIRECTORY say why.",
    true,
  ),
  CUDA_ERROR: facts("The CUDA driver refused a call.", "See the driver's own name of the error in the message."),

  // The operating system
  TOO_MANY_FDS: facts("The table of open files is full.", "Close something, or raise the limit (ulimit -n).", true),
  DISK_FULL: facts("No space is left on the device written to.", "Free space there.", true),
  PERMISSION_DENIED: facts(
    "The operating system, or the hub, does not allow this to this user.",
    "Check owner, mode and sharing of what the message names.",
  ),
  SYSTEM_ERROR: facts("A system call failed.", "See the system's own name of the error in the message."),
} as const satisfies Record<string, ErrorCodeFacts>;

export type ErrorCode = keyof typeof errorCodes;

export function isErrorCode(value: string): value is ErrorCode {
  return Object.hasOwn(errorCodes, value);
}
