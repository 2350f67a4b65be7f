import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { App, Dead, InvalidSignature, RetryAfter, Webhook } from "delayq";
import { z } from "zod";
import { leftOut, Server } from "./server.js";

const secret = (text: string): string => `whsec_${Buffer.from(text).toString("base64")}`;
const [one, two] = [secret("the first secret of these tests"), secret("the second secret of these tests")];

function signed(body: string, by: string[], at = Date.now()): Record<string, string> {
  const timestamp = String(Math.floor(at / 1000));
  const sign = (key: string): string =>
    "v1," + createHmac("sha256", Buffer.from(key.slice(6), "base64")).update(`msg.${timestamp}.${body}`).digest("base64");
  return {
    "Webhook-Id": "msg", "webhook-timestamp": timestamp, "webhook-signature": by.map(sign).join(" "), "content-type": "application/json",
    "delayq-task-type": "order.cancel", "delayq-task-id": "order-42", "delayq-namespace": "default", "delayq-attempt": "2",
    "delayq-due-at": "1767225602000", "delayq-fence": "7", "delayq-header-shop": "berlin",
  };
}

test("a signed request is read, and every other one is refused", async () => {
  const hook = await new Webhook<{ id: number }>(one).verify(signed('{"id":42}', [one]), '{"id":42}');
  assert.deepEqual([hook.type, hook.id, hook.attempt, hook.fence, hook.message.id, hook.headers], ["order.cancel", "order-42", 2, 7, 42, { shop: "berlin" }]);
  await new Webhook(two).verify(new Headers(signed("1", [one, two])), Buffer.from("1"));
  await new Webhook([one, two]).verify(signed("1", [two]), "1");
  const refused: [Record<string, string | undefined>, string][] = [
    [signed("1", [two]), "1"], [signed("1", [one]), "2"], [signed("1", [one], Date.now() - 301_000), "1"], [signed("1", [one], Date.now() + 302_000), "1"],
    [{}, "1"], [{ ...signed("1", [one]), "webhook-signature": "v1," }, "1"], [{ ...signed("1", [one]), "webhook-timestamp": "soon" }, "1"],
    [{ ...signed("1", [one]), "webhook-signature": signed("1", [one])["webhook-signature"]!.replace("v1,", "v2,") }, "1"],
  ];
  for (const [headers, body] of refused) {
    await assert.rejects(new Webhook(one).verify(headers, body), (error) => error instanceof InvalidSignature && error.kind === "invalid-signature");
  }
  assert.throws(() => new Webhook(""), /secret/);
  assert.throws(() => new Webhook([]), /secret/);
});

test("a handler answers as the server expects", async () => {
  const webhook = new Webhook(one, { schema: z.object({ how: z.string() }) });
  const answer = webhook.handler(({ message: { how } }) => {
    if (how === "dead") throw new Dead("no such order");
    if (how === "later") throw new RetryAfter("90s");
    if (how === "fail") throw new TypeError("no van");
    return how === "reply" ? { ok: true } : undefined;
  });
  const ask = async (body: string, headers = signed(body, [one])): Promise<[number, string, string | null]> => {
    const response = await answer(new Request("http://h/", { method: "POST", headers, body }));
    return [response.status, await response.text(), response.headers.get("retry-after")];
  };
  assert.deepEqual(await ask('{"how":"ok"}'), [204, "", null]);
  assert.deepEqual(await ask('{"how":"reply"}'), [200, '{"ok":true}', null]);
  assert.deepEqual(await ask('{"how":"dead"}'), [410, "no such order", null]);
  assert.equal((await ask('{"how":"later"}'))[2], "90");
  assert.deepEqual(await ask('{"how":"fail"}'), [500, "TypeError: no van", null]);
  assert.equal((await ask('{"how":1}'))[0], 410);
  assert.equal((await ask("1", signed("2", [one])))[0], 401);
});

test("a middleware reads the body itself, or takes that of express.raw", async () => {
  const seen: unknown[] = [];
  const middleware = new Webhook(one).middleware(({ message }) => void seen.push(message));
  const http = createServer((request, response) => void middleware(request, response));
  after(() => void http.close());
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  assert.equal((await fetch(url, { method: "POST", headers: signed('"é"', [one]), body: '"é"' })).status, 204);
  assert.equal((await fetch(url, { method: "POST", headers: signed('"é"', [one]), body: '"e"' })).status, 401);
  assert.equal((await fetch(url, { method: "POST", body: Buffer.alloc(5 << 20) })).status, 413);
  for (const secret of ["", "whsec_", "no secret", []]) assert.throws(() => new Webhook(secret), /whsec_/);
  let status = 0;
  const response = { writeHead: (code: number) => ((status = code), response), end: () => {} };
  await middleware({ headers: signed("7", [one]), body: Buffer.from("7") } as never, response as never);
  assert.equal(status, 204);
  await assert.rejects(middleware({ headers: signed("7", [one]), body: 7, readableEnded: true } as never, response as never), /express.json/);
  assert.deepEqual(seen, ["é", 7]);
});

test("the server pushes to a middleware, and takes its answers", { skip: leftOut, timeout: 30_000 }, async () => {
  const server = await new Server(8224, '[push]\nallow_http = true\nallow_networks = ["127.0.0.0/8"]').start();
  after(() => server.end());
  const seen: unknown[] = [];
  const middleware = new Webhook<{ id: number }>(one).middleware(({ type, id, attempt, message, headers }) => {
    seen.push([type, id, attempt, message.id, headers.shop]);
    if (attempt === 1) throw new RetryAfter("1s");
    return { refund: 12 };
  });
  const http = createServer((request, response) => void middleware(request, response));
  after(() => void http.close());
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/hook`;
  const target = { http: { url, secrets: [one] } };
  const headers = { authorization: `Bearer ${server.token}` };
  const set = await fetch(`${server.url}/types/order.cancel/target`, { method: "PUT", headers, body: JSON.stringify(target) });
  assert.equal(set.status, 200, await set.text());
  const app = new App({ url: server.url, token: server.token });
  const { reply } = await app.send("order.cancel", { id: 42 }, { id: "order-42", headers: { shop: "berlin" }, wait: "15s" });
  assert.deepEqual(reply, { refund: 12 });
  assert.deepEqual(seen, [["order.cancel", "order-42", 1, 42, "berlin"], ["order.cancel", "order-42", 2, 42, "berlin"]]);
});
