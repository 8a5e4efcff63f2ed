/** Each request and each reply, with every field and every choice. */
import { requests, results } from "../../support/messages.js";

/** docs/protocol/vectors/messages.json */
export function messageVectors(): object {
  const replies = Object.entries(results).flatMap(([op, all]) =>
    all.map((result) => ({ to: op, text: JSON.stringify({ v: 1, id: 7, ok: true, result }) })),
  );
  const error = { code: "NOT_FOUND", message: 'Cannot open "frame": no object has this name' };
  return {
    requests: requests.map((request) => JSON.stringify(request)),
    replies,
    refusals: [JSON.stringify({ v: 1, id: 7, ok: false, error })],
  };
}
