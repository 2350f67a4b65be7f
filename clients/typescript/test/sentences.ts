// What holds of the app and of its test double.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Conflict, Dead, InvalidInput, Later, LimitExceeded, NotFound, RetryAfter, type App, DelayqError } from "delayq";
import { z } from "zod";

export interface World {
  app: App;
  /** Lets the time pass: by this span, or on a server until it is so. */
  pass: (span: string, isSo: () => boolean | Promise<boolean>) => Promise<unknown>;
}

export function sentences(title: string, options: { skip: string | false; world: () => Promise<World> }): void {
  let count = 0;
  const sentence = (name: string, check: (world: World, type: string) => Promise<void>): void => {
    test(`${title}: ${name}`, { skip: options.skip, timeout: 30_000 }, async () => check(await options.world(), `t${++count}.${title}`));
  };

  sentence("a task is found, moved, updated and cancelled", async ({ app }, type) => {
    const sent = await app.send(type, { order: 42, note: "é \u{1F600}", none: null }, { id: "a/b?c#d%20", after: "30m", group: "g" });
    assert.equal(sent.outcome, "accepted");
    assert.ok(Math.abs(sent.dueAt!.getTime() - Date.now() - 1_800_000) < 60_000);
    const found = await app.find<{ order: number }>(type, "a/b?c#d%20");
    assert.deepEqual(found?.message, { order: 42, note: "é \u{1F600}", none: null });
    assert.equal(found?.headers.group, "g");
    const at = new Date(Date.now() + 86_400_000);
    assert.equal((await app.reschedule(type, sent.id, { at })).dueAt.getTime(), at.getTime());
    await app.update(type, sent.id, [1]);
    assert.deepEqual((await app.find(type, sent.id))?.message, [1]);
    assert.equal((await app.cancel(type, sent.id)).outcome, "cancelled");
    assert.equal((await app.find(type, sent.id))?.state, "cancelled");
    assert.equal(await app.find(type, "unknown"), null);
    await assert.rejects(app.cancel(type, "unknown"), NotFound);
    await assert.rejects(app.runNow(type, sent.id), (error) => error instanceof Conflict && error.kind === "finished");
  });

  sentence("the same task is known, and another one is a conflict", async ({ app }, type) => {
    await app.send(type, 1, { id: "one", after: "1h" });
    assert.equal((await app.send(type, 1, { id: "one", after: "1h" })).outcome, "already_exists");
    await assert.rejects(app.send(type, 2, { id: "one", after: "1h" }), (error) => error instanceof Conflict && error.status === 409);
    assert.equal((await app.send(type, 2, { id: "one", after: "1h", onConflict: "keep" })).outcome, "already_exists");
    assert.equal((await app.send(type, 2, { id: "one", after: "1h", onConflict: "replace" })).outcome, "replaced");
    assert.equal((await app.find(type, "one"))?.message, 2);
  });

  sentence("what is not valid is refused", async ({ app }, type) => {
    await assert.rejects(app.send("no such type", 1), InvalidInput);
    await assert.rejects(app.send(type, 1, { id: "with blank" }), InvalidInput);
    await assert.rejects(app.send(type, 1, { after: "soon" }), InvalidInput);
    await assert.rejects(app.send(type, 1, { after: "1h", at: new Date() }), InvalidInput);
    await assert.rejects(app.send(type, 1, { id: "a", debounce: "1s" }), InvalidInput);
    await assert.rejects(app.send(type, 1, { at: 1_700_000_000 }), InvalidInput);
    await assert.rejects(app.send(type, "x".repeat(300_000)), LimitExceeded);
    await assert.rejects(app.send(type, 1, { delay: "1h" } as object), TypeError);
    await assert.rejects(app.send(type, () => 1), TypeError);
  });

  sentence("many are sent, each with an outcome", async ({ app }, type) => {
    const tasks = Array.from({ length: 30 }, (_, index) => ({ type: index === 7 ? "bad type" : type, message: index, id: `n${index}`, after: "1h" }));
    const outcomes = await app.sendAll(tasks);
    assert.equal(outcomes.length, 30);
    outcomes.forEach((one, index) => {
      if (index === 7) assert.ok(one instanceof InvalidInput);
      else assert.equal((one as { id: string }).id, `n${index}`);
    });
    assert.equal((await app.find(type, "n29"))?.message, 29);
  });

  sentence("a handler gets typed messages and replies", async ({ app }, type) => {
    const schema = z.object({ order: z.number(), note: z.string().default("none") });
    const seen: unknown[] = [];
    const ask = app.task(type, { schema, concurrency: 2 }, async ({ order, note }, cx) => {
      seen.push([order, note, cx.id, cx.attempt, cx.headers.shop, cx.group]);
      return { refund: order * 2 };
    });
    app.start();
    const receipt = await app.send<{ refund: number }>(type, { order: 21 }, { id: "x", headers: { shop: "Köln" }, group: "g", wait: "5s" });
    assert.deepEqual([receipt.state, receipt.reply], ["done", { refund: 42 }]);
    assert.deepEqual(seen, [[21, "none", "x", 1, "Köln", "g"]]);
    await assert.rejects(ask.send({ order: "many" } as never, { wait: "5s" }), (error) => error instanceof DelayqError && error.kind === "dead" && /order/.test(error.detail));
  });

  sentence("bytes go and come as they are", async ({ app }, type) => {
    app.task(type, { raw: true }, async (bytes) => Buffer.from(bytes).reverse());
    app.start();
    const { reply } = await app.send<Uint8Array>(type, new Uint8Array([0, 255, 1]), { wait: "5s" });
    assert.deepEqual([...reply!], [1, 255, 0]);
  });

  sentence("a failed attempt is repeated, until it is dead", async ({ app }, type) => {
    const errors: unknown[] = [];
    app.task<{ fails: number }>(type, { retry: { max: 3, wait: "50ms", fixed: true } }, async ({ fails }, cx) => {
      errors.push(cx.lastError);
      if (cx.attempt <= fails) throw new TypeError(`no van ${cx.attempt}`);
    });
    app.start();
    const { state } = await app.send(type, { fails: 2 }, { wait: "5s" });
    assert.equal(state, "done");
    assert.deepEqual(errors, [undefined, "TypeError: no van 1", "TypeError: no van 2"]);
    await app.send(type, { fails: 9 }, { id: "dead" });
    await assert.rejects(app.reply(type, "dead", { wait: "5s" }), /no van 3/);
    assert.equal((await app.find(type, "dead"))?.state, "dead");
  });

  sentence("a handler can end in other ways", async ({ app }, type) => {
    const attempts: number[] = [];
    app.task<string>(type, async (how, cx) => {
      attempts.push(cx.attempt);
      if (attempts.length > 1) return "over";
      if (how === "later") throw new Later("50ms");
      if (how === "retry") throw new RetryAfter("50ms", "busy");
      throw new Dead("no such order");
    });
    app.start();
    for (const [how, expected] of [["later", [1, 1]], ["retry", [1, 2]]] as const) {
      attempts.length = 0;
      assert.equal((await app.send(type, how, { wait: "5s" })).reply, "over");
      assert.deepEqual(attempts, expected);
    }
    attempts.length = 0;
    await assert.rejects(app.send(type, "dead", { wait: "5s" }), (error) => error instanceof DelayqError && /no such order/.test(error.detail));
  });

  sentence("follow-ups come once, and a batch ends with one", async ({ app, pass }, type) => {
    const done: unknown[] = [];
    app.task(type, async (message, cx) => {
      done.push(message);
      if (message === "first") cx.followUp(type, "second", { after: "20ms" });
      if (message === "report") done.push(JSON.parse(cx.headers["delayq-batch"]!).done);
    });
    app.start();
    await app.send(type, "first");
    await pass("500ms", () => done.length === 2);
    assert.deepEqual(done, ["first", "second"]);
    const batch = await app.sendBatch(`batch.${type}`, { tasks: [{ type, message: "a" }, { type, message: "b" }], then: { type, message: "report" } });
    assert.deepEqual(batch.ids, [`batch.${type}/0`, `batch.${type}/1`]);
    assert.ok(await app.batch(`batch.${type}`));
    await pass("4s", () => done.length === 6);
    assert.deepEqual(done.slice(2).sort(), ["a", "b", "report", 2].sort());
    assert.equal(await app.batch("unknown"), null);
  });

  sentence("debounce, throttle and again", async ({ app, pass }, type) => {
    await app.send(type, 1, { id: "d", debounce: "1h", maxWait: "2h" });
    await app.send(type, 2, { id: "d", debounce: "1h", maxWait: "2h" });
    assert.equal((await app.find(type, "d"))?.message, 2);
    const first = await app.send(type, 1, { id: "t", throttle: "1d" });
    assert.match(first.id, /^t@\d{4}-/);
    assert.equal((await app.send(type, 2, { id: "t", throttle: "1d" })).outcome, "already_exists");
    await app.send(type, 3, { id: "e", expiresAfter: 0 });
    app.task(type, async () => assert.fail("it has expired"));
    app.start();
    await pass("300ms", async () => (await app.find(type, "e"))?.state === "expired");
    assert.equal((await app.find(type, "e"))?.state, "expired");
  });

  sentence("recurring tasks are declared, paused and removed", async ({ app }, type) => {
    const id = `r.${type}`;
    const set = await app.setRecurring(id, { type, every: "15m", message: { a: 1 } });
    assert.deepEqual([set.id, set.every, set.message, set.nextAt!.getTime() % 900_000], [id, "15m", { a: 1 }, 0]);
    assert.equal((await app.pauseRecurring(id)).paused, true);
    assert.equal((await app.resumeRecurring(id)).paused, false);
    assert.ok((await app.listRecurring()).some((one) => one.id === id));
    assert.deepEqual([await app.removeRecurring(id), await app.removeRecurring(id)], [true, false]);
    await assert.rejects(app.setRecurring(id, { type, every: "often" }), InvalidInput);
  });
}
