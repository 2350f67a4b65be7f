// A real server for the tests, on a file of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const root = resolve(fileURLToPath(new URL("../../..", import.meta.url)));
const built = ["debug", "release"].map((kind) => resolve(root, "../../target", kind, "delayq-server"));
export const binary = process.env.DELAYQ_SERVER ?? built.find((path) => existsSync(path));
/** Why tests with a server are left out, if so. */
export const leftOut = binary ? false : "LEFT OUT: no delayq-server; build it, or name it in DELAYQ_SERVER";

export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Waits until something is true. */
export async function until<T>(what: () => T | Promise<T>, ms = 20_000): Promise<NonNullable<T>> {
  for (const end = Date.now() + ms; ; await sleep(20)) {
    const value = await what();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
  }
}

export class Server {
  readonly token = "dq_first_0123456789abcdef0123456789abcdef";
  readonly url: string;
  readonly #folder = mkdtempSync(join(tmpdir(), "delayq-ts-"));
  process?: ChildProcess;

  constructor(readonly port: number, more = "") {
    this.url = `http://127.0.0.1:${port}/v1/default`;
    const store = join(this.#folder, "tasks.sqlite");
    const lines = [`listen = "127.0.0.1:${port}"`, `store = "sqlite:${store}"`, `bootstrap_token = "${this.token}"`, more];
    writeFileSync(join(this.#folder, "server.toml"), lines.join("\n"));
  }

  async start(): Promise<this> {
    const config = join(this.#folder, "server.toml");
    this.process = spawn(binary!, ["--config", config, "--log", "warn"], { stdio: ["ignore", "ignore", "inherit"] });
    await until(() => fetch(`http://127.0.0.1:${this.port}/health/ready`).then(({ ok }) => ok, () => false));
    return this;
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const { process } = this;
    if (process?.exitCode !== null || process.signalCode) return;
    const ended = new Promise((done) => process.once("exit", done));
    process.kill(signal);
    await ended;
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true });
  }
}
