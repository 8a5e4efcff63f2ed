/**
 * The C library functions that this package uses: symbols and signatures, no logic.
 * glibc and musl have all of them under these names. Read `errno` right after the call that set it.
 */
import { type Address, koffi, type PointerArgument } from "./koffi.js";

export interface Libc {
  open(path: string, flags: number, mode: number): number;
  close: {
    (fd: number): number;
    /** Runs on the thread pool. */
    async(fd: number, callback: (failure: unknown, result: number) => void): void;
  };
  dup3(fd: number, number: number, flags: number): number;
  epoll_create1(flags: number): number;
  epoll_ctl(epoll: number, operation: number, fd: number, event: Uint8Array): number;
  epoll_wait(epoll: number, events: Uint8Array, count: number, timeoutMs: number): number;
  memfd_create(name: string, flags: number): number;
  ftruncate(fd: number, length: number): number;
  fchmod(fd: number, mode: number): number;
  fallocate: {
    (fd: number, mode: number, offset: number, length: number): number;
    /** Runs on the thread pool. Calls back with the result, and that thread's errno is set. */
    async(
      fd: number,
      mode: number,
      offset: number,
      length: number,
      callback: (failure: unknown, result: number) => void,
    ): void;
  };
  mmap(
    address: Address | null,
    length: number,
    protection: number,
    flags: number,
    fd: number,
    offset: number,
  ): Address;
  munmap(address: Address, length: number): number;
  memmove: {
    (to: PointerArgument, from: PointerArgument, length: number): Address;
    /** Runs on the thread pool. */
    async(
      to: Address,
      from: Address,
      length: number,
      callback: (failure: unknown, result: Address) => void,
    ): void;
  };
  memset(to: Address, value: number, length: number): Address;
  lseek(fd: number, offset: number, whence: number): number;
  eventfd(initial: number, flags: number): number;
  eventfd_write(fd: number, value: number): number;
  fcntl(fd: number, command: number, argument: number): number;
  /** `fcntl` for the commands that take a struct flock. */
  fcntl_lock(fd: number, command: number, lock: Uint8Array): number;
  fstatfs(fd: number, facts: Uint8Array): number;
  flock(fd: number, operation: number): number;
  inotify_init1(flags: number): number;
  inotify_add_watch(fd: number, path: string, mask: number): number;
  socket(domain: number, type: number, protocol: number): number;
  bind(fd: number, address: Uint8Array, length: number): number;
  listen(fd: number, backlog: number): number;
  accept4(fd: number, address: null, length: null, flags: number): number;
  connect(fd: number, address: Uint8Array, length: number): number;
  socketpair(domain: number, type: number, protocol: number, fds: Int32Array): number;
  shutdown(fd: number, how: number): number;
  ioctl(fd: number, request: number, argument: Int32Array): number;
  getsockopt(
    fd: number,
    level: number,
    option: number,
    value: Uint8Array,
    length: Uint32Array,
  ): number;
  setsockopt(fd: number, level: number, option: number, value: Uint8Array, length: number): number;
  sendmsg(fd: number, message: Uint8Array, flags: number): number;
  recvmsg(fd: number, message: Uint8Array, flags: number): number;
  poll(fds: Uint8Array, count: number, timeoutMs: number): number;
  sigaction(signal: number, wanted: Uint8Array | null, found: Uint8Array | null): number;
  /** For pidfd_open, which older C libraries lack: system call 434 on all architectures. */
  syscall(number: number, first: number, second: number): number;
  /** `syscall` for AIO, preadv2 and timers, whose arguments are all words. */
  kernel(
    number: number,
    first: bigint,
    second: bigint,
    third: bigint,
    fourth: bigint,
    fifth: bigint,
    sixth: bigint,
  ): number;
  sendfile: {
    /** Runs on the thread pool. Calls back with the count, and that thread's errno is set. */
    async(
      to: number,
      from: number,
      offset: null,
      count: number,
      callback: (failure: unknown, result: number) => void,
    ): void;
  };
}

let used: Libc | undefined;

export function libc(): Libc {
  used ??= open();
  return used;
}

/**
 * Replaces the table of functions, for tests; see intercept-libc.ts.
 * @returns restores the previous table
 */
export function replaceLibc(replacement: (real: Libc) => Libc): () => void {
  const real = libc();
  used = replacement(real);
  return () => {
    used = real;
  };
}

/** The errno of the last call made on this thread. */
export function lastErrno(): number {
  return koffi().errno();
}

/** The address of a C function that a signal can call: it takes an int and changes nothing. */
export function harmlessHandler(): Address {
  return BigInt(koffi().address(koffi().load(null).symbol("abs")));
}

function open(): Libc {
  // Null is the process itself. Node is linked against the C library, whose name differs by system.
  const lib = koffi().load(null);
  const declare = (name: string, result: string, parameters: string[]): never =>
    lib.func(name, result, parameters) as never;
  return {
    // Variadic in C, but passed the same way on x86-64 and AArch64 Linux.
    open: declare("open", "int", ["str", "int", "uint"]),
    close: declare("close", "int", ["int"]),
    dup3: declare("dup3", "int", ["int", "int", "int"]),
    epoll_create1: declare("epoll_create1", "int", ["int"]),
    epoll_ctl: declare("epoll_ctl", "int", ["int", "int", "int", "void*"]),
    epoll_wait: declare("epoll_wait", "int", ["int", "void*", "int", "int"]),
    memfd_create: declare("memfd_create", "int", ["str", "uint"]),
    ftruncate: declare("ftruncate", "int", ["int", "int64"]),
    fchmod: declare("fchmod", "int", ["int", "uint32"]),
    fallocate: declare("fallocate", "int", ["int", "int", "int64", "int64"]),
    mmap: declare("mmap", "void*", ["void*", "size_t", "int", "int", "int", "int64"]),
    munmap: declare("munmap", "int", ["void*", "size_t"]),
    memmove: declare("memmove", "void*", ["void*", "void*", "size_t"]),
    memset: declare("memset", "void*", ["void*", "int", "size_t"]),
    lseek: declare("lseek", "int64", ["int", "int64", "int"]),
    eventfd: declare("eventfd", "int", ["uint", "int"]),
    eventfd_write: declare("eventfd_write", "int", ["int", "uint64"]),
    fcntl: declare("fcntl", "int", ["int", "int", "int"]),
    fcntl_lock: declare("fcntl", "int", ["int", "int", "void*"]),
    fstatfs: declare("fstatfs", "int", ["int", "void*"]),
    flock: declare("flock", "int", ["int", "int"]),
    inotify_init1: declare("inotify_init1", "int", ["int"]),
    inotify_add_watch: declare("inotify_add_watch", "int", ["int", "str", "uint32"]),
    socket: declare("socket", "int", ["int", "int", "int"]),
    bind: declare("bind", "int", ["int", "void*", "uint"]),
    listen: declare("listen", "int", ["int", "int"]),
    accept4: declare("accept4", "int", ["int", "void*", "void*", "int"]),
    connect: declare("connect", "int", ["int", "void*", "uint"]),
    socketpair: declare("socketpair", "int", ["int", "int", "int", "void*"]),
    shutdown: declare("shutdown", "int", ["int", "int"]),
    // Variadic in C, like `open`.
    ioctl: declare("ioctl", "int", ["int", "ulong", "void*"]),
    getsockopt: declare("getsockopt", "int", ["int", "int", "int", "void*", "void*"]),
    setsockopt: declare("setsockopt", "int", ["int", "int", "int", "void*", "uint"]),
    sendmsg: declare("sendmsg", "intptr", ["int", "void*", "int"]),
    recvmsg: declare("recvmsg", "intptr", ["int", "void*", "int"]),
    poll: declare("poll", "int", ["void*", "ulong", "int"]),
    sigaction: declare("sigaction", "int", ["int", "void*", "void*"]),
    syscall: declare("syscall", "long", ["long", "long", "long"]),
    kernel: declare("syscall", "long", ["long", ...Array<string>(6).fill("int64")]),
    sendfile: declare("sendfile", "intptr", ["int", "int", "void*", "size_t"]),
  };
}
