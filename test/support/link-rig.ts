/** A client that is linked to a hub which answers by a script. */
import { type ConnectOptions, connect } from "../../src/client/connect.js";
import type { Hub } from "../../src/client/hub.js";
import { obliging, type Script, ScriptedHub } from "./scripted-hub.js";
import { TestFolder } from "./test-folder.js";
import { soon } from "./until.js";

export interface LinkRig extends Disposable {
  readonly folder: TestFolder;
  readonly scripted: ScriptedHub;
}

export function linkRig(script: Script = obliging()): LinkRig {
  const folder = new TestFolder();
  const scripted = new ScriptedHub(folder.socket, script);
  const dispose = () => {
    scripted[Symbol.dispose]();
    folder[Symbol.dispose]();
  };
  return { folder, scripted, [Symbol.dispose]: dispose };
}

export function join({ folder }: LinkRig, options: ConnectOptions = {}): Promise<Hub> {
  return connect({ socket: folder.socket, start: false, device: "host", ...options });
}

export function reconnected(hub: Hub): Promise<{ resumed: boolean }> {
  return soon("it reconnects", new Promise((resolve) => hub.onReconnect(resolve)));
}
