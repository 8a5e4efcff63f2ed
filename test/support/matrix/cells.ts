/** The cells of the fault matrix: who is hit, by what, while which step is under way. */

export const roles = ["producer", "consumer", "hub"] as const;
export const faults = ["SIGKILL", "SIGSTOP", "socket cut", "fd table full", "disk full", "memory limit"] as const;
export const steps = ["create", "publish", "open", "read", "write", "close", "reconnect"] as const;

export type Role = (typeof roles)[number];
export type Fault = (typeof faults)[number];
export type Step = (typeof steps)[number];

export interface Cell {
  readonly role: Role;
  readonly fault: Fault;
  readonly step: Step;
}

export const cells: readonly Cell[] = roles.flatMap((role) =>
  faults.flatMap((fault) => steps.map((step) => ({ role, fault, step }))),
);

export function cellName({ role, fault, step }: Cell): string {
  return `${role}, ${fault}, ${step}`;
}

/** Those who call something in the step. The hub's part in it is no call of anybody's. */
export const doersOf: Readonly<Record<Step, readonly Role[]>> = {
  create: ["producer"],
  publish: ["producer"],
  open: ["consumer"],
  read: ["consumer"],
  write: ["producer"],
  close: ["producer", "consumer"],
  reconnect: ["producer", "consumer"],
};

/** Whether the one that is hit has a part in the step itself, so that it is hit within its own system calls. */
export function takesPart({ role, step }: Cell): boolean {
  if (role === "hub") return step !== "read" && step !== "write";
  return doersOf[step].includes(role);
}
