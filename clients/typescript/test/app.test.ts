import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { App, Stopped, Unauthorized, Unavailable } from "delayq";
import { TestApp } from "delayq/testing";
import { sentences } from "./sentences.js";
import { leftOut, Server, sleep, until } from "./server.js";

const server = new Server(8210);
const apps: App[] = [];
const connect = (options = {}): App => {
  const app = new App({ url: server.url, token: server.token, grace: "1s", ...options });
  apps.push(app);
  return app;
};
before(async () => void (leftOut || (await server.start())));
after(async () => {
  await Promise.all(apps.map((app) => app.stop(0)));
  await server.end();
});

sentences("server", { skip: leftOut, world: async () => ({ app: connect(), pass: (_, isSo) => until(isSo) }) });
sentences("double", { skip: false, world: async () => { const app = new TestApp(); return { app, pass: (span) => app.advance(span) }; } });

test("a span without a unit is refused, and the double waits exactly", async () => {
  const app = new TestApp({ log: { warn() {}, error() {} } });
  await assert.rejects(app.send("a", 1, { after: "30" }), /30s/);
  app.task("a", { retry: { wait: "1m" } }, async (_, cx) => { if (cx.attempt === 1) throw new Error("no van"); });
  await app.send("a", 1);
  assert.deepEqual([await app.advance("59999ms"), await app.advance("1ms")], [1, 1]);
});

test("options are checked at once", () => {
  const token = "t";
  for (const url of ["", "delayq://x", "http://h/v1/a?b=1", "http://u:p@h", "h:1"]) assert.throws(() => new App({ url, token }), /DELAYQ_HTTP/);
  assert.throws(() => new App({ url: "http://h/v1/a", namespace: "b", token }), /namespace/);
  assert.throws(() => new App({ url: "http://h", token: "" }), /token/);
  assert.throws(() => new App({ url: "http://h", token: "a b" }), /token/);
  assert.throws(() => new App({ url: "http://h", token, timeout: "soon" }), /soon/);
  const app = new App({ url: "http://h", token });
  assert.throws(() => app.task("a", { lock: "10ms" }, async () => {}), /lock/);
  assert.throws(() => app.task("a", { concurrency: 0 }, async () => {}), /concurrency/);
});

test("addresses", async () => {
  const paths: string[] = [];
  const fetch = (async (url: URL) => (paths.push(String(url)), Response.json({ id: "x", outcome: "accepted", durability: "disk", due_at: 1 }))) as never;
  for (const url of ["http://h", "http://h/", "http://h/v1", "http://h/p/v1/ns/", "https://h:1/v1/ns"]) await new App({ url, token: "t", fetch }).send("a", 1, { id: "x" });
  assert.deepEqual(paths, ["http://h/v1/default", "http://h/v1/default", "http://h/v1/default", "http://h/p/v1/ns", "https://h:1/v1/ns"].map((base) => `${base}/types/a/tasks/x`));
});

test("a wrong token, and an id that is a step in a path", { skip: leftOut }, async () => {
  await assert.rejects(connect({ token: "dq_no_no" }).find("a", "b"), Unauthorized);
  const app = connect();
  assert.equal((await app.send("dots", 1, { id: ".." })).id, "..");
  await assert.rejects(app.find("dots", ".."), /address/);
  const ended = new Promise<string>((resolve) => app.task("dots", async (_, cx) => resolve(cx.id)));
  app.start();
  assert.equal(await ended, "..");
});

test("a request is repeated until the answer is certain, with the same id and body", async () => {
  const seen: string[] = [];
  const answers = [
    () => ["destroy"], () => [503, "", { "retry-after": "0" }],
    () => [504, JSON.stringify({ type: "urn:delayq:problem:in-doubt", status: 504, title: "t", detail: "d", is_repeatable: true })],
    () => [201, JSON.stringify({ id: "x", outcome: "accepted", due_at: 5, durability: "disk" })],
  ];
  const http = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    seen.push(`${request.method} ${request.url} ${body}`);
    const [status, text, headers] = answers.shift()!() as [number | "destroy", string, Record<string, string>];
    if (status === "destroy") request.socket.destroy();
    else response.writeHead(status, headers).end(text);
  });
  await new Promise<void>((done) => http.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const app = new App({ url, token: "t", patience: "10s" });
  assert.equal((await app.send("a", { b: 1 })).outcome, "accepted");
  assert.equal(seen.length, 4);
  assert.equal(new Set(seen).size, 1);
  assert.match(seen[0]!, /^PUT \/v1\/default\/types\/a\/tasks\/[0-9a-f]{32} {"b":1}$/);
  http.close();
  const impatient = new App({ url, token: "t", patience: "300ms" });
  await assert.rejects(impatient.send("a", 1), (error) => error instanceof Unavailable && !error.isInDoubt && error.kind === "unavailable");
});

test("a lock is extended while a handler blocks, and a cancel reaches it", { skip: leftOut, timeout: 30_000 }, async () => {
  const app = connect({ log: { warn: () => {}, error: () => {} } });
  let starts = 0;
  app.task<number>("long", { lock: "1s", concurrency: 2 }, async (ms, cx) => {
    starts++;
    if (ms) return void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    await new Promise((_, reject) => cx.signal.addEventListener("abort", () => reject(cx.signal.reason)));
  });
  app.start();
  assert.equal((await app.send("long", 3500, { wait: "10s" })).state, "done");
  assert.equal(starts, 1);
  await app.send("long", 0, { id: "stop" });
  await until(async () => (await app.find("long", "stop"))?.state === "running");
  assert.equal((await app.cancel("long", "stop")).outcome, "running");
  await until(async () => (await app.find("long", "stop"))?.state === "cancelled");
});

test("a lost lock is told to the handler, and nothing is reported", { skip: leftOut, timeout: 30_000 }, async () => {
  // Extensions go nowhere.
  const never = (signal: AbortSignal) => new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  let reports = 0;
  const broken: typeof fetch = (url, init) => ((reports += Number(String(url).endsWith("/settle"))), String(url).endsWith("/extend") ? never(init!.signal!) : fetch(url, init));
  const [app, other] = [connect({ fetch: broken, log: { warn: () => {}, error: () => {} } }), connect()];
  const told = new Promise<unknown>((resolve) => {
    app.task("lost", { lock: "1s" }, async (_, cx) => {
      await new Promise<void>((done) => cx.lost.addEventListener("abort", () => done()));
      resolve(cx.signal.reason);
      return "stale";
    });
  });
  other.task("lost", async (_, cx) => ({ attempt: cx.attempt }));
  app.start();
  await app.send("lost", 1, { id: "x" });
  await until(async () => (await app.find("lost", "x"))?.state === "running");
  other.start();
  const reason = await told;
  assert.ok(reason instanceof Stopped && reason.why === "lost");
  assert.deepEqual((await other.reply("lost", "x", { wait: "10s" })).reply, { attempt: 2 });
  await app.stop(0);
  assert.equal(reports, 0);
});

test("a stop lets handlers finish, and gives back the rest", { skip: leftOut, timeout: 30_000 }, async () => {
  const [app, other] = [connect(), connect()];
  app.task<number>("stop", { concurrency: 3 }, async (ms, cx) => {
    if (ms) return sleep(ms);
    await new Promise((_, reject) => cx.signal.addEventListener("abort", () => reject(cx.signal.reason)));
  });
  app.start();
  await app.sendAll([{ type: "stop", message: 500, id: "quick" }, { type: "stop", message: 0, id: "slow" }, { type: "stop", message: 60_000, id: "deaf" }]);
  await until(async () => (await Promise.all(["quick", "slow", "deaf"].map((id) => app.find("stop", id)))).every((one) => one?.state === "running"));
  await app.stop("1s");
  assert.equal((await app.find("stop", "quick"))?.state, "done");
  for (const id of ["slow", "deaf"]) assert.equal((await app.find("stop", id))?.state, "scheduled");
  other.task("stop", { concurrency: 2 }, async (_, cx) => cx.attempt);
  other.start();
  for (const id of ["slow", "deaf"]) assert.equal((await other.reply("stop", id, { wait: "5s" })).reply, 1);
});

test("never more handlers than places, and every task once", { skip: leftOut, timeout: 30_000 }, async () => {
  const [one, two] = [connect(), connect()];
  const runs = new Map<string, number>();
  for (const app of [one, two]) {
    let present = 0;
    app.task("shared", { concurrency: 3 }, async (_, cx) => {
      assert.ok(++present <= 3);
      runs.set(cx.id, (runs.get(cx.id) ?? 0) + 1);
      await sleep(20);
      present--;
    });
    app.start();
  }
  await one.sendAll(Array.from({ length: 60 }, (_, index) => ({ type: "shared", message: index })));
  await until(() => runs.size === 60);
  assert.ok([...runs.values()].every((count) => count === 1));
});

test("around runs around every attempt", async () => {
  const app = new TestApp();
  const seen: string[] = [];
  app.around(async (cx, next) => { seen.push(`+${cx}`); try { return await next(); } finally { seen.push("-"); } });
  app.task("a", async () => void seen.push("work"));
  await app.send("a", 1, { id: "x" });
  await app.advance("1s");
  assert.deepEqual(seen, ["+a x (attempt 1)", "work", "-"]);
});
