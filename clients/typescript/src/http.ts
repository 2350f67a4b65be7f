import { DelayqError, failure } from "./errors.js";
import { backoff, now, sleep } from "./time.js";

/** An answer of the server. @internal */
export interface Answer {
  status: number;
  headers: Headers;
  body: Uint8Array;
}

/** A request below the namespace. @internal */
export interface Call {
  query?: Record<string, string | number | boolean | null | undefined>;
  /** A value that is sent as JSON. */
  json?: unknown;
  body?: string | Uint8Array;
  headers?: Record<string, string>;
  /** Milliseconds beyond the time limit of a request, for those that wait. */
  extra?: number;
  /** Ends the request until its answer begins. */
  signal?: AbortSignal;
  /** The time of the monotonic clock until which it is repeated. */
  until?: () => number;
  /** Looks at an answer, and throws if it is a refusal all the same. */
  check?: (answer: Answer) => void;
}

/** Where the server is, and how it is asked. @internal */
export interface Place {
  base: string;
  token: string;
  timeout: number;
  patience: number;
  fetch: typeof fetch;
}

/** Errors of a connection that was never made: nothing was sent. */
const NOT_SENT = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|CERT|SSL|TLS/;
const REPEATED = new Set([408, 429, 502, 503, 504, 507]);

/** The address of the namespace. @internal */
export function baseOf(text: string | undefined, namespace: string | undefined): string {
  const wrong = (why: string): never => {
    throw new TypeError(`url: ${why}; write such as http://127.0.0.1:7880/v1/default, or set DELAYQ_HTTP`);
  };
  if (!text) return wrong("the address of the server is missing");
  const url = URL.canParse(text) ? new URL(text) : wrong(`${JSON.stringify(text)} is no URL`);
  if (url.protocol !== "http:" && url.protocol !== "https:") return wrong(`${url.protocol}// is not HTTP`);
  if (url.search || url.hash) return wrong("it has a query or a fragment: leave them out");
  if (url.username || url.password) return wrong("it has a user: the token is an option of its own");
  const [, before, named] = /^(.*?)(?:\/v1(?:\/([^/]+))?)?\/*$/.exec(url.pathname)!;
  if (named && namespace && named !== namespace) return wrong(`it names the namespace ${named}, the option ${namespace}`);
  return `${url.origin}${before}/v1/${named ?? encodeURIComponent(namespace ?? "default")}`;
}

/** One request. @throws DelayqError */
async function once(place: Place, method: string, path: string, call: Call): Promise<Answer> {
  const { query = {}, json, headers, extra = 0, signal } = call;
  const url = new URL(place.base + path);
  for (const [name, value] of Object.entries(query)) if (value != null) url.searchParams.set(name, String(value));
  const ending = new AbortController();
  const stop = (): void => ending.abort(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted) stop();
  const late = new Error(`no answer within ${place.timeout + extra} ms`);
  const timer = setTimeout(() => ending.abort(late), place.timeout + extra);
  try {
    const answer = await place.fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${place.token}`,
        ...(json === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      body: (json === undefined ? call.body : JSON.stringify(json)) as RequestInit["body"],
      redirect: "manual",
      signal: ending.signal,
    });
    signal?.removeEventListener("abort", stop);
    const body = new Uint8Array(await answer.arrayBuffer());
    if (!answer.ok) throw refusal(answer, new TextDecoder().decode(body));
    return { status: answer.status, headers: answer.headers, body };
  } catch (error) {
    if (error instanceof DelayqError || signal?.aborted) throw error;
    throw unanswered(error, place.base);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

/** The error of an answer that is no success. */
function refusal(answer: Response, text: string): DelayqError {
  try {
    const problem = JSON.parse(text);
    if (String(problem.type).startsWith("urn:delayq:problem:")) return failure(problem);
  } catch {
    // It is not of delayq.
  }
  const { status } = answer;
  const said = text.slice(0, 200).trim() || answer.statusText;
  const moved = answer.headers.get("location");
  const detail = moved ? `the server redirects to ${moved}: use that address` : `the answer is not of delayq, but: ${said}`;
  const after = Number(answer.headers.get("retry-after")) || null;
  const problem = { type: `http-${status}`, title: "the answer is not of delayq", status, detail };
  if (status === 404) return new DelayqError(problem);
  return failure({ ...problem, is_repeatable: REPEATED.has(status), retry_after: after });
}

/** The error of a request without an answer. */
function unanswered(error: unknown, base: string): DelayqError {
  const parts: string[] = [];
  for (let one: unknown = error; one instanceof Error; one = one.cause) {
    const { code } = one as { code?: string };
    const inner = one instanceof AggregateError ? one.errors.map((each) => String(each?.message)).join(", ") : "";
    parts.push([code && !one.message.includes(code) ? code : "", one.message, inner].filter(Boolean).join(" "));
  }
  const text = parts.filter((part) => part !== "fetch failed").join(": ").replace(/\s+/g, " ").trim() || String(error);
  const hint = /HPE_INVALID/.test(text) ? "; does the server speak TLS (https://)?"
    : /WRONG_VERSION|EPROTO/.test(text) ? "; does the server speak TLS? Otherwise use http://" : "";
  const isInDoubt = !NOT_SENT.test(text);
  const detail = `no answer of ${base}: ${text}${hint}`;
  const type = isInDoubt ? "in-doubt" : "unavailable";
  return failure({ type, title: "there is no answer", detail, is_repeatable: true, isInDoubt }, { cause: error });
}

/** A request, which is repeated while its end is not certain, until the patience is over. @internal */
export async function ask(place: Place, method: string, path: string, call: Call = {}): Promise<Answer> {
  const patience = now() + place.patience;
  const until = call.until ?? (() => patience);
  let isInDoubt = false;
  for (let tries = 0; ; tries++) {
    try {
      const answer = await once(place, method, path, call);
      call.check?.(answer);
      return answer;
    } catch (error) {
      if (!(error instanceof DelayqError)) throw error;
      error.isInDoubt = isInDoubt ||= error.isInDoubt;
      if (!error.isRepeatable) throw error;
      const wait = error.retryAfter ?? backoff(tries);
      if (now() + wait >= until()) throw error;
      await sleep(wait, call.signal);
    }
  }
}

/** The JSON of an answer. @internal */
export function jsonOf<T>(answer: Answer): T {
  const text = new TextDecoder().decode(answer.body);
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    const detail = `the answer is not of delayq, but: ${text.slice(0, 200)}`;
    throw new DelayqError({ type: "not-understood", title: "the answer is not understood", detail }, { cause });
  }
}
