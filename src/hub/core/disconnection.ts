/** Ends sessions of living processes, because somebody else asks for it. */
import { CudaIpcError } from "../../base/errors.js";
import type { RequestOf, ResultOf } from "../../wire/messages.js";
import { errorReply } from "./error-reply.js";
import type { HubPorts } from "./ports.js";
import type { SessionEnd } from "./session-end.js";
import type { Session, Sessions } from "./sessions.js";

type Ports<Fd> = Pick<HubPorts<Fd>, "reply" | "hangUp" | "forget" | "disconnected">;

export class Disconnection<Fd> {
  readonly #ports: Ports<Fd>;
  readonly #sessions: Sessions<Fd>;
  readonly #end: SessionEnd<Fd>;

  constructor(ports: Ports<Fd>, sessions: Sessions<Fd>, end: SessionEnd<Fd>) {
    this.#ports = ports;
    this.#sessions = sessions;
    this.#end = end;
  }

  /** Whoever sees a session in the list of clients may disconnect it. @throws NOT_FOUND */
  disconnect({ peer }: Session<Fd>, request: RequestOf<"disconnect">): ResultOf<"disconnect"> {
    const session = this.#sessions.findVisible(request.session, peer);
    if (session === undefined) {
      throw new CudaIpcError(
        "NOT_FOUND",
        `Cannot disconnect client ${request.session}: user ${peer.uid} sees no such client`,
      );
    }
    if (session.disconnected) return {};
    const { connection } = session;
    this.#end.disconnect(session);
    this.#ports.disconnected(session.id, session.peer, session.program, peer);
    if (!connection.attached) return {};
    const farewell = new CudaIpcError(
      "DISCONNECTED",
      `This client was disconnected from the hub by process ${peer.pid} of user ${peer.uid}`,
    );
    this.#ports.reply(connection.id, errorReply(0, farewell), []);
    this.#ports.hangUp(connection.id);
    return {};
  }

  /** Ends a disconnected session, whose client has come back and knows that it holds nothing. */
  confirmed(session: Session<Fd>): void {
    const { connection } = session;
    this.#sessions.detach(connection);
    this.#end.endSession(session, () => this.#ports.forget(connection.id));
  }
}
