import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Dead, InvalidSignature, Later, RetryAfter } from "./errors.js";
import { readMessage, type Schema } from "./schema.js";
import { millis, type Duration } from "./time.js";

/** A task that the server pushed. */
export interface Hook<M = unknown> {
  type: string;
  id: string;
  namespace: string;
  attempt: number;
  fence: number;
  dueAt: Date;
  /** The same in every attempt: store it if a repeat would do harm. */
  webhookId: string;
  /** The headers of the task. */
  headers: Record<string, string>;
  message: M;
}

export interface WebhookOptions<M = unknown> {
  /** How old a request may be; default 5 min. */
  tolerance?: Duration;
  schema?: Schema<M>;
  /** The message is the bytes of the body. */
  raw?: boolean;
}

/** More than a message may be long. */
const MOST_BYTES = 4 << 20;

type Headerlike = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
/** What it returns is the reply of the task. `Dead` and `RetryAfter` do what they do in a worker. */
type HookHandler<M> = (hook: Hook<M>) => unknown;
type Said = { status: number; headers: Record<string, string>; body: Uint8Array | string | null };

/** Verifies requests of push targets, which are signed as Standard Webhooks specifies. */
export class Webhook<M = unknown> {
  readonly #keys: Buffer[];
  readonly #tolerance: number;

  /** Takes the secret of the target, `whsec_..`, or several during a rotation. */
  constructor(secret: string | readonly string[], private readonly options: WebhookOptions<M> = {}) {
    const coded = [secret].flat().map((one) => one.trim().replace(/^whsec_/, ""));
    const isSecret = (one: string): boolean => /^[A-Za-z0-9+/]+={0,2}$/.test(one);
    if (!coded.length || !coded.every(isSecret)) throw new TypeError("secret: it is whsec_ and base64, as the target shows it once");
    this.#keys = coded.map((one) => Buffer.from(one, "base64"));
    this.#tolerance = millis(options.tolerance ?? "5m");
  }

  /** The task of a request. The body has to be as it came. @throws InvalidSignature */
  async verify(headers: Headerlike, body: Uint8Array | string): Promise<Hook<M>> {
    const named = headers instanceof Headers ? [...headers] : Object.entries(headers);
    const all = new Map(named.map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
    const get = (name: string): string => all.get(name) ?? "";
    const [id, sentAt] = [get("webhook-id"), get("webhook-timestamp")];
    if (!id || !sentAt || !get("webhook-signature")) throw new InvalidSignature("the request is not signed");
    const age = Math.abs(Date.now() - 1000 * Number(/^\d+$/.test(sentAt) ? sentAt : Number.NaN));
    if (!(age <= this.#tolerance)) throw new InvalidSignature("the request is too old, or a clock is wrong");
    const bytes = Buffer.from(body as Uint8Array);
    const own = this.#keys.map((key) => createHmac("sha256", key).update(`${id}.${sentAt}.`).update(bytes).digest());
    const signatures = get("webhook-signature").split(" ").filter((one) => one.startsWith("v1,"));
    const given = signatures.map((one) => Buffer.from(one.slice(3), "base64"));
    if (!own.some((mac) => given.some((one) => one.length === mac.length && timingSafeEqual(one, mac)))) {
      throw new InvalidSignature("no signature of the request is by one of the secrets");
    }
    const { raw, schema } = this.options;
    const message = raw ? bytes : await readMessage<M>(bytes, get("content-type"), schema).catch(unreadable);
    const ownHeaders = [...all].filter(([name]) => name.startsWith("delayq-header-"));
    return {
      type: get("delayq-task-type"),
      id: get("delayq-task-id"),
      namespace: get("delayq-namespace"),
      attempt: Number(get("delayq-attempt")),
      fence: Number(get("delayq-fence")),
      dueAt: new Date(Number(get("delayq-due-at"))),
      webhookId: id,
      headers: Object.fromEntries(ownHeaders.map(([name, value]) => [name.slice("delayq-header-".length), value])),
      message: message as M,
    };
  }

  /** A handler for servers of the web standard: Hono, Bun, Deno, Next.js, workers. */
  handler(handle: HookHandler<M>): (request: Request) => Promise<Response> {
    return async (request) => {
      const { status, headers, body } = await this.#answer(handle, request.headers, new Uint8Array(await request.arrayBuffer()));
      return new Response(body as ConstructorParameters<typeof Response>[0], { status, headers });
    };
  }

  /** A middleware for express, and a listener for `http.createServer`. Nothing before it may read the body as JSON. */
  middleware(handle: HookHandler<M>): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
    return async (request, response) => {
      let { body: read } = request as { body?: unknown };
      if (!(read instanceof Uint8Array) && request.readableEnded) {
        const what = "use this middleware before express.json(), or express.raw({ type: '*/*' })";
        throw new TypeError(`the body was read before: ${what}`);
      }
      if (!(read instanceof Uint8Array)) {
        const parts: Buffer[] = [];
        let size = 0;
        for await (const part of request) if ((size += part.length) <= MOST_BYTES) parts.push(part as Buffer);
        if (size > MOST_BYTES) return void response.writeHead(413).end();
        read = Buffer.concat(parts);
      }
      const { status, headers, body } = await this.#answer(handle, request.headers, read as Uint8Array);
      response.writeHead(status, headers).end(body ?? undefined);
    };
  }

  async #answer(handle: HookHandler<M>, given: Headerlike, bytes: Uint8Array): Promise<Said> {
    const text = (status: number, body: string, more = {}): Said => {
      return { status, headers: { "content-type": "text/plain", ...more }, body };
    };
    try {
      const reply = await handle(await this.verify(given, bytes));
      if (reply === undefined || reply === null) return { status: 204, headers: {}, body: null };
      if (reply instanceof Uint8Array) return { status: 200, headers: {}, body: reply };
      return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify(reply) };
    } catch (error) {
      const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      if (error instanceof InvalidSignature) return text(401, said);
      if (error instanceof Dead) return text(410, error.message);
      if (error instanceof RetryAfter || error instanceof Later) {
        return text(503, error.message, { "retry-after": String(Math.ceil(millis(error.after) / 1000)) });
      }
      return text(500, said);
    }
  }
}

function unreadable(error: unknown): never {
  throw new Dead(`the message cannot be read: ${error instanceof Error ? error.message : error}`);
}
