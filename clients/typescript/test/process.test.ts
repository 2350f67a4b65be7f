// Workers in processes of their own, which are killed, stopped and told to end; and a server that is killed.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { App } from "delayq";
import { leftOut, root, Server, sleep, until } from "./server.js";

const server = new Server(8222);
const app = (): App => new App({ url: server.url, token: server.token });
const workers: ChildProcess[] = [];
before(async () => void (leftOut || (await server.start())));
after(async () => {
  for (const worker of workers) worker.kill("SIGKILL");
  await server.end();
});

type Said = { event: string; id: string; attempt: number; how?: string };

async function work(type: string, options: object = {}): Promise<{ process: ChildProcess; said: Said[] }> {
  const env = { ...process.env, DELAYQ_HTTP: server.url, DELAYQ_TOKEN: server.token };
  const worker = spawn(process.execPath, [`${root}/driver/driver.mjs`], { env, stdio: ["pipe", "pipe", "inherit"] });
  workers.push(worker);
  const said: Said[] = [];
  createInterface({ input: worker.stdout! }).on("line", (line) => said.push(JSON.parse(line)));
  worker.stdin!.write(`{"n":1,"do":"app","grace":"1s"}\n${JSON.stringify({ n: 2, do: "work", type, lock: "2s", ...options })}\n`);
  await until(() => said.length >= 2);
  return { process: worker, said };
}

test("the task of a killed worker runs on another one", { skip: leftOut, timeout: 30_000 }, async () => {
  const first = await work("killed");
  await app().send("killed", { do: "sleep", for: "1s" }, { id: "x" });
  await until(() => first.said.some(({ event }) => event === "start"));
  first.process.kill("SIGKILL");
  const second = await work("killed");
  await until(() => second.said.some(({ event, attempt }) => event === "start" && attempt === 2));
  assert.equal((await app().reply("killed", "x", { wait: "10s" })).state, "done");
});

test("a worker that was stopped beyond its lock is told so", { skip: leftOut, timeout: 30_000 }, async () => {
  const first = await work("stopped");
  await app().send("stopped", { do: "sleep", for: "25s" }, { id: "x" });
  await until(() => first.said.some(({ event }) => event === "start"));
  first.process.kill("SIGSTOP");
  const second = await work("stopped");
  await until(() => second.said.some(({ event, attempt }) => event === "start" && attempt === 2));
  first.process.kill("SIGCONT");
  await until(() => first.said.some(({ event }) => event === "lost"));
  await until(() => first.said.some(({ event, how }) => event === "end" && how === "raised"));
  await app().cancel("stopped", "x");
  await until(async () => (await app().find("stopped", "x"))?.state === "cancelled");
});

test("on SIGTERM a worker finishes what it can, gives back the rest, and exits with 0", { skip: leftOut, timeout: 30_000 }, async () => {
  const { process: worker, said } = await work("term", { concurrency: 2 });
  await app().send("term", { do: "sleep", for: "600ms" }, { id: "short" });
  await app().send("term", { do: "block", for: "60s" }, { id: "long" });
  await until(() => said.filter(({ event }) => event === "start").length === 2);
  worker.kill("SIGTERM");
  assert.deepEqual(await once(worker, "exit"), [0, null]);
  assert.equal((await app().find("term", "short"))?.state, "done");
  const long = await app().find("term", "long");
  assert.deepEqual([long?.state, long?.attempt], ["scheduled", 0]);
});

test("a second signal ends at once, and a worker that waits ends at once", { skip: leftOut, timeout: 30_000 }, async () => {
  const waiting = await work("idle");
  const began = Date.now();
  waiting.process.kill("SIGINT");
  assert.deepEqual(await once(waiting.process, "exit"), [0, null]);
  assert.ok(Date.now() - began < 10_000);
  const busy = await work("busy");
  await app().send("busy", { do: "block", for: "60s" }, { id: "x" });
  await until(() => busy.said.some(({ event }) => event === "start"));
  busy.process.kill("SIGTERM");
  await sleep(200);
  busy.process.kill("SIGTERM");
  assert.deepEqual(await once(busy.process, "exit"), [143, null]);
});

test("the end of a task is repeated until a killed server is back", { skip: leftOut, timeout: 60_000 }, async () => {
  const { said } = await work("away", { lock: "30s" });
  await app().send("away", { do: "sleep", for: "1s" }, { id: "x" });
  await until(() => said.some(({ event }) => event === "start"));
  await server.kill();
  const sent = app().send("away", { do: "ok" }, { id: "y" });
  await until(() => said.some(({ event }) => event === "end"));
  await server.start();
  assert.equal((await sent).outcome, "accepted");
  for (const id of ["x", "y"]) assert.equal((await app().reply("away", id, { wait: "20s" })).state, "done");
  assert.equal(said.filter(({ event, id }) => event === "start" && id === "x").length, 1);
});
