/**
 * The expected result of a cell: in words for docs/reliability.md, and as the codes that the other
 * processes may get.
 */
import type { Cell, KeeperFault, PartyFault, Step } from "./cells.js";
import { consumerExpectations } from "./expectations-consumer.js";
import { hubExpectations } from "./expectations-hub.js";
import { keeperExpectations } from "./expectations-keeper.js";
import { producerExpectations } from "./expectations-producer.js";

export interface Expectation {
  readonly sentence: string;
  /** `ok` and codes of errors. */
  readonly allowed: readonly string[];
  /** Of the open that waits while something is created, written and published. */
  readonly waiter: readonly string[];
}

/** A sentence; after it what the calls may give where that is not `ok` alone. */
export type Declared =
  | string
  | readonly [sentence: string, allowed: readonly string[], waiter?: readonly string[]];

type Expectations<Fault extends string> = Readonly<Record<Fault, Readonly<Record<Step, Declared>>>>;
export type RoleExpectations = Expectations<PartyFault>;
export type KeeperExpectations = Expectations<KeeperFault>;

const byRole: Readonly<Record<Cell["role"], Partial<Expectations<string>>>> = {
  producer: producerExpectations,
  consumer: consumerExpectations,
  hub: hubExpectations,
  keeper: keeperExpectations,
};

export function expectationOf({ role, fault, step }: Cell): Expectation {
  const declared = byRole[role][fault]?.[step];
  if (declared === undefined)
    throw new TypeError(`Nothing is declared of ${role}, ${fault}, ${step}`);
  const [sentence, allowed = ["ok"], waiter = []] =
    typeof declared === "string" ? [declared] : declared;
  return { sentence, allowed, waiter };
}
