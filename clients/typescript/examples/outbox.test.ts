// A test of an application with the double of the app. Run it with `node --test`.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { App } from "delayq";
import { TestApp } from "delayq/testing";

/** What an application does with its app. */
function reminders(app: App, remind: (student: string) => void) {
  const lesson = app.task<{ student: string }>("lesson.remind", async ({ student }) => remind(student));
  return {
    book: (id: string, student: string, at: Date) => lesson.send({ student }, { id, at, onConflict: "replace" }),
    cancel: (id: string) => app.cancel("lesson.remind", id),
  };
}

test("students are reminded of lessons that are not cancelled", async () => {
  const app = new TestApp({ now: new Date("2030-01-01T08:00:00Z") });
  const reminded: string[] = [];
  const lessons = reminders(app, (student) => reminded.push(student));
  await lessons.book("lesson-1", "Ada", new Date("2030-01-01T09:00:00Z"));
  await lessons.book("lesson-2", "Max", new Date("2030-01-01T10:00:00Z"));
  await lessons.cancel("lesson-2");
  await app.advance("1d");
  assert.deepEqual(reminded, ["Ada"]);
});
