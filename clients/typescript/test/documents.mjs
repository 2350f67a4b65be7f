// Writes the programs of the README and of the guide to build/documents, so that they are compiled and run.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const root = new URL("..", import.meta.url);
const folder = new URL("build/documents/", root);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const [name, page] of [["readme", "README.md"], ["guide", "../../docs/guide/client-typescript.md"]]) {
  const text = readFileSync(new URL(page, root), "utf8");
  const programs = [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, program]) => program);
  if (!programs.length) throw new Error(`${page} has no program`);
  programs.forEach((program, index) => {
    const line = text.slice(0, text.indexOf(program)).split("\n").length;
    writeFileSync(new URL(`${name}-${String(index).padStart(2, "0")}-line-${line}.ts`, folder), program);
  });
}
