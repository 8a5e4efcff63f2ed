import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WebAccess } from "../../../src/web/web-access.js";
import type { WebRequest } from "../../../src/web/web-messages.js";

function request(
  url: string,
  cookies: Record<string, string> = {},
  method = "GET",
  isDirect = false,
): WebRequest {
  const { pathname, searchParams } = new URL(url, "http://x");
  return {
    method: method as "GET",
    path: pathname,
    query: searchParams,
    cookies: new Map(Object.entries(cookies)),
    bearer: undefined,
    isDirect,
    body: new Uint8Array(),
    signal: new AbortController().signal,
  };
}

function entered(access: WebAccess) {
  const answer = access.check(request(access.firstPath));
  assert.ok(typeof answer === "object" && answer.status === 200);
  const { "Set-Cookie": cookie = "", Refresh: refresh = "" } = answer.headers ?? {};
  const [, folder = "", value = ""] = [
    ...(/url=(.*)$/.exec(refresh) ?? []),
    ...(/=([^;]*)/.exec(cookie)?.slice(1) ?? []),
  ];
  return { cookie, folder, cookies: { cuda_ipc: value } };
}

function isRefused(answer: ReturnType<WebAccess["check"]>): boolean {
  return typeof answer === "object" && answer.status === 401;
}

describe("WebAccess", () => {
  it("changes the token for a strict cookie of a secret folder", () => {
    const access = new WebAccess();
    const { cookie, folder, cookies } = entered(access);
    assert.match(cookie, /; HttpOnly; SameSite=Strict$/);
    assert.ok(cookie.includes(`; Path=${folder};`) && folder.length > 40);
    assert.equal(access.check(request(`${folder}objects/7`, cookies)), "objects/7");
    assert.equal(access.check(request(folder, cookies)), "");
  });

  it("redirects a person who opens the URL directly", () => {
    const access = new WebAccess();
    const { cookie, folder } = entered(access);
    const answer = access.check(request(access.firstPath, {}, "GET", true));
    assert.deepEqual(answer, {
      status: 303,
      headers: { "Set-Cookie": cookie, Location: folder },
    });
    for (const url of ["/", "/?token=x"])
      assert.ok(isRefused(access.check(request(url, {}, "GET", true))), url);
  });

  it("refuses a wrong or missing token, cookie and folder", () => {
    const access = new WebAccess();
    const { folder, cookies } = entered(access);
    const other = entered(new WebAccess());
    const token = access.firstPath.slice("/?token=".length);
    for (const [url, given, method] of [
      ["/", {}],
      ["/", cookies],
      ["/?token=", {}],
      [`/?token=${token.slice(0, -1)}`, {}],
      [`/?token=${token}x`, {}],
      [other.folder, cookies],
      [folder, {}],
      [folder, other.cookies],
      [folder, { cuda_ipc: "" }],
      [folder, { cuda_ipc: token }],
      [`${folder}?token=${token}`, {}],
      [access.firstPath, {}, "POST"],
    ] as const)
      assert.ok(isRefused(access.check(request(url, given, method))), `${method} ${url}`);
  });
});
