// Runs the programs of the README and of the guide. Each prints what its comments say, and those that work until a
// signal end with 0 on SIGTERM.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { leftOut, root, Server, sleep, until } from "./server.js";

const server = new Server(8220);
before(async () => void (leftOut || (await server.start())));
after(() => server.end());

/** Sends what a target would get, until it is taken. */
async function push(port: number, secret: string): Promise<void> {
  const body = JSON.stringify({ id: 42 });
  const timestamp = String(Math.floor(Date.now() / 1000));
  const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`push-1.${timestamp}.${body}`).digest("base64");
  const headers = {
    "content-type": "application/json", "webhook-id": "push-1", "webhook-timestamp": timestamp, "webhook-signature": `v1,${mac}`,
    "delayq-task-type": "order.cancel", "delayq-task-id": "order-42", "delayq-namespace": "default", "delayq-attempt": "1",
  };
  await until(() => fetch(`http://127.0.0.1:${port}/hooks/cancel`, { method: "POST", headers, body }).then(({ ok }) => ok, () => false));
}

const folder = `${root}/build/documents`;
let port = 8230;
for (const name of readdirSync(folder).filter((one) => one.endsWith(".ts")).sort()) {
  test(`the program ${name}`, { skip: leftOut, timeout: 60_000 }, async () => {
    const text = readFileSync(`${folder}/${name}`, "utf8");
    const expected = [...text.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line!);
    const secret = `whsec_${Buffer.from("a secret of this test").toString("base64")}`;
    const env = { ...process.env, DELAYQ_HTTP: server.url, DELAYQ_TOKEN: server.token, PORT: String(++port), WEBHOOK_SECRET: secret };
    const program = spawn(process.execPath, [`${root}/build/js/build/documents/${name.replace(/ts$/, "js")}`], { env });
    let [said, ended] = ["", undefined as number | null | undefined];
    for (const stream of [program.stdout, program.stderr]) stream.on("data", (part) => (said += part));
    program.on("exit", (code) => (ended = code));
    try {
      if (text.includes("WEBHOOK_SECRET")) await push(port, secret);
      const isSaid = (): boolean => expected.every((line) => said.includes(line));
      await until(() => ended !== undefined || (isSaid() && text.includes("app.run()")), 30_000).catch(() => {});
      await sleep(50);
      if (ended === undefined) program.kill("SIGTERM");
      await until(() => ended !== undefined, 30_000);
      for (const line of expected) assert.ok(said.includes(line), `it did not print ${line}, but:\n${said}`);
      if (!text.includes("WEBHOOK_SECRET")) assert.equal(ended, 0, said);
    } finally {
      program.kill("SIGKILL");
    }
  });
}
