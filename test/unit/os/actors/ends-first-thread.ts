/**
 * Ends only its first thread. Node's own threads stay, so the process goes on without doing
 * anything.
 */
import { libc } from "../../../../src/ffi/libc.js";

const SYS_EXIT = process.arch === "arm64" ? 93 : 60;

libc().syscall(SYS_EXIT, 0, 0);
