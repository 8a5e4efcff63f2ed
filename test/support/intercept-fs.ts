/**
 * Intercepts the calls of Node's fs that src makes, as intercept-libc.ts does for the C library.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { constants } from "node:os";

const { errno } = constants;

/** The errnos that each call can really set for the files that src uses, most likely first. */
const errnosByCall = {
  openSync: [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EACCES],
  readFileSync: [errno.EMFILE, errno.ENFILE, errno.EIO],
  readdirSync: [errno.EMFILE, errno.ENFILE, errno.EACCES],
  readSync: [errno.EIO],
  writeSync: [errno.ENOSPC, errno.ENOMEM],
  fstatSync: [errno.ENOMEM],
  lstatSync: [errno.EACCES, errno.ENOMEM],
  readlinkSync: [errno.EACCES, errno.ENOMEM],
  mkdirSync: [errno.EACCES, errno.ENOSPC],
  unlinkSync: [errno.EACCES, errno.EROFS],
  chmodSync: [errno.EROFS, errno.EPERM],
  ftruncateSync: [errno.EIO, errno.ENOMEM],
  renameSync: [errno.ENOSPC, errno.EACCES],
} as const;

export type FsCall = keyof typeof errnosByCall;
export type FsInterceptor = (call: FsCall, errnos: readonly number[]) => number | undefined;

const names = new Map<number, string>(Object.entries(errno).map(([name, value]) => [value, name]));

/**
 * Intercepts calls of Node's fs.
 * @param interceptor returns the errno of the call, or undefined to let it run
 * @returns removes the interceptor
 */
export function interceptFs(interceptor: FsInterceptor): () => void {
  // WHY on the module's object: Node then updates the functions that other modules have imported.
  const functions = fs as unknown as Record<string, (...values: unknown[]) => unknown>;
  const real = Object.keys(errnosByCall).map((name) => [name as FsCall, functions[name]] as const);
  for (const [name, call] of real) {
    functions[name] = (...values) => {
      const failure = interceptor(name, errnosByCall[name]);
      if (failure !== undefined) throw errorOf(name, failure);
      return call?.(...values);
    };
  }
  syncBuiltinESMExports();
  return () => {
    for (const [name, call] of real) if (call !== undefined) functions[name] = call;
    syncBuiltinESMExports();
  };
}

/** The error that Node throws for an errno. */
function errorOf(name: FsCall, failure: number): Error {
  const code = names.get(failure);
  const syscall = name.replace(/(File)?Sync$/, "");
  return Object.assign(new Error(`${code}: made to fail, ${syscall}`), {
    errno: -failure,
    code,
    syscall,
  });
}
