/** What a handler of a web server gets, and what it returns. */

export interface WebRequest {
  readonly method: "GET" | "HEAD" | "POST";
  /** Decoded, and without `.` and `..`. Begins with a slash. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly cookies: ReadonlyMap<string, string>;
  /** The token of `Authorization: Bearer`. */
  readonly bearer: string | undefined;
  /** True if the browser says that no page led to this request: a person opened the URL. */
  readonly isDirect: boolean;
  /** Empty unless it was posted. At most `limits.webBodyBytesMax`. */
  readonly body: Uint8Array;
  /** Aborted if the client hangs up, the server closes, or the answer takes too long. */
  readonly signal: AbortSignal;
}

export interface WebAnswer {
  readonly status: number;
  /** The type of the body. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** An answer without an end, such as server-sent events. */
export interface WebStream {
  readonly type: string;
  /**
   * Writes until the signal is aborted. `write` resolves once the client's side has taken all, so
   * never more than one text is buffered. It throws if the client takes nothing for too long.
   */
  readonly run: (write: (text: string) => Promise<void>, signal: AbortSignal) => Promise<void>;
}

export type WebHandler = (request: WebRequest) => Promise<WebAnswer | WebStream>;

export function textAnswer(status: number, text: string): WebAnswer {
  return { status, type: "text/plain; charset=utf-8", body: `${text}\n` };
}

export function jsonAnswer(value: unknown): WebAnswer {
  const type = "application/json; charset=utf-8";
  return { status: 200, type, body: JSON.stringify(value) };
}
