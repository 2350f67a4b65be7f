// A worker whose server answers late, wrongly or not at all.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { App, NotFound, Stopped, type Context } from "delayq";
import { sleep, until } from "./server.js";

type Answer = (n: number) => unknown;
const ends: (() => unknown)[] = [];
after(async () => void (await Promise.all(ends.map((end) => end()))));

/** What the nth request of a kind is answered: text, a status, or the milliseconds as text that the answer is late. */
async function begin(tasks: string[], how: Record<string, Answer>, handler?: (cx: Context) => unknown): Promise<{ app: App; seen: Record<string, string[]> }> {
  const seen: Record<string, string[]> = {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const what = /([^/]*?)(\?|$)/.exec(request.url!)![1]!;
    const number = (seen[what] ??= []).push(request.url + body);
    const id = what === "claim" ? tasks.shift() : undefined;
    let answer = how[what]?.(number) ?? (what === "claim" && !id ? { late: 300 } : undefined);
    if (answer && typeof answer === "object") await sleep((answer as { late: number }).late);
    if (typeof answer === "number") response.statusCode = answer;
    const task = { type: "a", id, lock: "1-0", fence: 1, attempt: 1, due_at: 0, submitted_at: 0, headers: {}, message: "1" };
    const fine = what === "claim" ? { tasks: id ? [task] : [] } : [{ id: "x", outcome: "extended" }];
    response.end(typeof answer === "string" ? answer : JSON.stringify(fine));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const app = new App({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: "t", patience: "3s", log: { warn() {}, error() {} } });
  ends.push(async () => (await app.stop(0), server.closeAllConnections(), server.close()));
  if (handler) app.task("a", { lock: "2s", retry: { max: 3 } }, (_, cx) => handler(cx));
  if (handler) app.start();
  return { app, seen };
}

for (const fault of [{ late: 20_000 }, "<html>", 500, 503]) {
  test(`one bad extension does not cost the lock: ${JSON.stringify(fault)}`, { timeout: 20_000 }, async () => {
    const stops: unknown[] = [];
    const { seen } = await begin(["x"], { extend: (n) => (n === 1 ? fault : undefined) }, async (cx) => {
      cx.signal.addEventListener("abort", () => stops.push((cx.signal.reason as Stopped).why));
      await sleep(5000);
    });
    await until(() => seen.settle);
    assert.deepEqual(stops, []);
    assert.ok(seen.extend!.length >= 3);
  });
}

test("a server that answers at once is not asked without a pause", async () => {
  const { seen } = await begin([], { claim: () => "{\"tasks\":[]}" }, () => {});
  await sleep(2000);
  assert.ok(seen.claim!.length >= 1 && seen.claim!.length <= 8, String(seen.claim!.length));
});

test("the page of a proxy is no task that is unknown", async () => {
  const { app } = await begin([], { x: () => 404 });
  await assert.rejects(app.find("a", "x"), (error) => !(error instanceof NotFound));
});
