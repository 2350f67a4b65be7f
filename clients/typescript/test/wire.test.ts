import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { root } from "./server.js";

test("the types of requests and answers are those of openapi.json", () => {
  const { scripts } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
  const [command, ...options] = scripts.generate.replace(/--output \S+/, "--output build/wire.ts").split(" ");
  execFileSync(`${root}/node_modules/.bin/${command}`, options, { cwd: root });
  const isCurrent = readFileSync(`${root}/src/wire.ts`, "utf8") === readFileSync(`${root}/build/wire.ts`, "utf8");
  assert.ok(isCurrent, "run `npm run generate`");
});

test("the routes that the client asks are there", () => {
  const { paths } = JSON.parse(readFileSync(`${root}/../../server/delayq-server/openapi.json`, "utf8"));
  const type = "/v1/{namespace}/types/{task_type}";
  const asked: [string, string, string[]][] = [
    ["put", `${type}/tasks/{id}`, ["delay", "at", "on_conflict", "debounce", "max_wait", "throttle", "expires_after", "expires_at", "group", "project", "again_if_running"]],
    ["get", `${type}/tasks/{id}`, []], ["delete", `${type}/tasks/{id}`, []],
    ["post", `${type}/tasks/{id}/reschedule`, ["delay", "at"]], ["post", `${type}/tasks/{id}/run-now`, []],
    ["put", `${type}/tasks/{id}/message`, []], ["get", `${type}/tasks/{id}/reply`, ["wait"]], ["get", `${type}/tasks/{id}/history`, []],
    ["post", `${type}/bulk`, []], ["post", `${type}/settle`, []], ["post", `${type}/extend`, []], ["post", `${type}/tasks/{id}/done`, ["lock"]],
    ["post", "/v1/{namespace}/types/{types}/claim", ["limit", "wait", "lock_for"]],
    ["put", "/v1/{namespace}/batches/{id}", []], ["get", "/v1/{namespace}/batches/{id}", []], ["delete", "/v1/{namespace}/batches/{id}", []],
    ["put", "/v1/{namespace}/recurring/{id}", []], ["delete", "/v1/{namespace}/recurring/{id}", []], ["get", "/v1/{namespace}/recurring", ["cursor", "limit"]],
    ["post", "/v1/{namespace}/recurring/{id}/pause", []], ["post", "/v1/{namespace}/recurring/{id}/resume", []],
  ];
  for (const [method, path, query] of asked) {
    const route = paths[path]?.[method];
    assert.ok(route, `${method} ${path} is not there`);
    const named = (route.parameters ?? []).map(({ name }: { name: string }) => name);
    for (const name of query) assert.ok(named.includes(name), `${method} ${path} has no ${name}`);
  }
});
