import { Worker } from "node:worker_threads";
import { ask, jsonOf, type Place } from "./http.js";
import { backoff, now, sleep } from "./time.js";
import type { components } from "./wire.js";

/** A lock to extend. @internal */
export interface Held {
  key: number;
  type: string;
  id: string;
  lock: string;
  /** The length of the lock in milliseconds. */
  span: number;
  /** How long ago it may have begun. */
  age: number;
}

/** What a heartbeat says of a lock: it lasts for `left` milliseconds, or it is lost. @internal */
export type Beat = { key: number; left: number; isCancelled: boolean } | { key: number; lost: string };

/** What is said to the thread. @internal */
export type Order = { hold: Held } | { free: number };

/** Extends locks every third of their length, until they are freed or lost. @internal */
export class Heart {
  readonly #held = new Map<number, AbortController>();

  constructor(readonly place: Place, readonly say: (beat: Beat) => void) {}

  take(order: Order): void {
    if ("hold" in order) return void this.#keep(order.hold).catch(() => {});
    this.#held.get(order.free)?.abort();
    this.#held.delete(order.free);
  }

  async #keep(held: Held): Promise<void> {
    const { key, type, span, age, id, lock } = held;
    const freed = new AbortController();
    this.#held.set(key, freed);
    let until = now() + span - age;
    let [wait, failures, why] = [Math.max(0, span / 3 - age), 0, ""];
    while (this.#held.has(key)) {
      await sleep(wait, freed.signal);
      const asked = now();
      if (asked >= until) return this.say({ key, lost: `it was not extended in time${why}` });
      // Half of what is left, so that a connection that hangs does not cost the lock.
      const timeout = Math.min(this.place.timeout, Math.max(500, (until - asked) / 2), until - asked);
      const json = { lock_for: span, locks: [{ id, lock }] };
      try {
        const path = `/types/${encodeURIComponent(type)}/extend`;
        const answer = await ask({ ...this.place, timeout }, "POST", path, { json, until: () => 0 });
        const [said] = jsonOf<components["schemas"]["One"][]>(answer);
        if (said?.outcome === "lock_lost") return this.say({ key, lost: "another worker may have the task" });
        if (said?.outcome === "failed") throw new Error(said.problem?.detail);
        until = asked + span;
        [wait, failures] = [Math.max(0, asked + span / 3 - now()), 0];
        this.say({ key, left: until - now(), isCancelled: said?.outcome === "cancel_requested" });
      } catch (error) {
        why = `: ${error instanceof Error ? error.message : error}`;
        wait = Math.min(backoff(failures++), Math.max(0, until - now()));
      }
    }
  }
}

/** Extends locks in a thread of its own, so that a handler that blocks keeps its lock. @internal */
export class Heartbeat {
  /** Resolves once locks can be extended. */
  readonly ready: Promise<void> = Promise.resolve();
  readonly #take: (order: Order) => void;
  readonly #thread?: Worker;

  constructor(place: Place, say: (beat: Beat) => void, warn: (text: string) => void) {
    let heart: Heart | undefined;
    this.#take = (order) => heart?.take(order);
    // A function for requests cannot be sent to a thread.
    if (place.fetch !== globalThis.fetch) {
      heart = new Heart(place, say);
      return;
    }
    const { fetch: _, ...workerData } = place;
    const held = new Map<number, Held>();
    const thread = new Worker(new URL("./thread.js", import.meta.url), { workerData, execArgv: [] });
    thread.unref();
    this.ready = new Promise((resolve) => {
      thread.once("message", () => (thread.on("message", say), resolve()));
      thread.once("error", () => resolve());
    });
    thread.on("error", (error) => {
      warn(`the thread that extends locks has failed, and the event loop extends them: ${error}`);
      heart = new Heart(place, say);
      for (const one of held.values()) heart.take({ hold: one });
    });
    this.#thread = thread;
    this.#take = (order) => {
      if ("hold" in order) held.set(order.hold.key, order.hold);
      else held.delete(order.free);
      if (heart) heart.take(order);
      else thread.postMessage(order);
    };
  }

  take(order: Order): void {
    this.#take(order);
  }

  async end(): Promise<void> {
    await this.#thread?.terminate();
  }
}
