/** Two machines and a NATS server, which end together. */
import type { Hub } from "../../../src/client/hub.js";
import { TestMachine, type TestMachineOptions } from "./test-machine.js";
import { TestNats } from "./test-nats.js";

const ANNOUNCES_ALL: TestMachineOptions = { args: ["--announce", "*"] };

export class TwoMachines implements AsyncDisposable {
  readonly nats: TestNats;
  readonly one: TestMachine;
  readonly other: TestMachine;
  readonly hubOfOne: Hub;
  readonly hubOfOther: Hub;

  private constructor(
    nats: TestNats,
    [one, other]: readonly [TestMachine, TestMachine],
    [hubOfOne, hubOfOther]: readonly [Hub, Hub],
  ) {
    this.nats = nats;
    this.one = one;
    this.other = other;
    this.hubOfOne = hubOfOne;
    this.hubOfOther = hubOfOther;
  }

  /** By default machine "one" announces all that it has. */
  static async start(
    optionsOfOne: TestMachineOptions = ANNOUNCES_ALL,
    optionsOfOther: TestMachineOptions = {},
  ): Promise<TwoMachines> {
    const nats = await TestNats.start();
    const machines: TestMachine[] = [];
    try {
      // WHY one after the other: two programs that start on a few cores take as long together.
      machines.push(await TestMachine.start("one", nats, optionsOfOne));
      machines.push(await TestMachine.start("other", nats, optionsOfOther));
      const [one, other] = machines as [TestMachine, TestMachine];
      return new TwoMachines(nats, [one, other], [await one.connect(), await other.connect()]);
    } catch (error) {
      for (const machine of machines) await machine[Symbol.asyncDispose]();
      await nats[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A hub that a test has ended cannot be told.
    for (const hub of [this.hubOfOther, this.hubOfOne]) await hub.close().catch(() => {});
    for (const part of [this.other, this.one, this.nats]) await part[Symbol.asyncDispose]();
  }
}
